"""A training script of the Hugging Face Trainer: a small language model, trained on random tokens."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class RandomTokens(Dataset):
    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index):
        ids = torch.randint(0, 128, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


if __name__ == "__main__":
    config = GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=128, n_positions=16, bos_token_id=0, eos_token_id=0)
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=4,
        max_steps=1000,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        ddp_find_unused_parameters=False,
    )
    Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=RandomTokens()).train()
