"""Secrets in arguments and variables: which names are of a secret, and which values are hidden."""

import shlex

import pytest

from fixtures.matrix.plain_text import is_secret, without_password, without_secret, without_secrets


@pytest.mark.parametrize(
    "name",
    [
        *(
            "--token",
            "--hub-token",
            "--hf_token",
            "HF_TOKEN",
            "hfToken",
            "--hftoken",
            "NCCL_AUTH_TOKEN",
            "--token-file",
        ),
        *("--key", "--api-key", "TORCH_API_KEY", "apiKey", "--apikey", "--api-keys", "AWS_ACCESS_KEY_ID", "--ssh-key"),
        *("--password", "--passwd", "NCCL_PASSWD", "--db-password", "--passphrase", "CUDA_PASSWORD"),
        *("--secret", "GLOO_SECRET_FILE", "--secrets", "AWS_SECRET_ACCESS_KEY", "--auth", "--basic-auth"),
        *("--credential", "--credentials", "trainer.hub_token", "--private-key-size"),
    ],
)
def test_these_names_are_of_a_secret(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("--num-tokens", "--tokens", "--tokenizer", "--tokenizer-path", "TOKENIZERS_PARALLELISM", "--max-tokens"),
        *("--num-key-value-heads", "--keys", "--num-keys", "--key-dim", "--keyframes", "--monkey", "--kv-heads"),
        *("--pad-token", "--mask-token", "--token-dropout", "--max-token-length", "--author", "--passes", "--width"),
        *("NCCL_ALGO", "OMP_NUM_THREADS", "--secretary", "--keep", "--tokenize"),
    ],
)
def test_these_names_are_of_no_secret(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("--api-key s3cr3t 'a b' --hub_token=s3cr3t", "--api-key *** 'a b' --hub_token=***"),
        ("--token -s3cr3t --width 8", "--token *** --width 8"),
        ("--auth --width 8", "--auth --width 8"),
        ("--opts API_KEY s3cr3t hub.token s3cr3t", "--opts API_KEY *** hub.token ***"),
        ("--opts MODEL.KEY_DIM 8 token.py 8 --sort key up", "--opts MODEL.KEY_DIM 8 token.py 8 --sort key up"),
        ("--set=api_key=s3cr3t hub.token=s3=cr3t", "--set=api_key=*** hub.token=***"),
        ("https://me:s3cr3t@host/x --url=s3://me:s3cr3t@host", "https://me:***@host/x --url=s3://me:***@host"),
        ("https://host:80/a@b git@host:x", "https://host:80/a@b git@host:x"),
        ("--num-tokens 512 --tokenizer gpt2", "--num-tokens 512 --tokenizer gpt2"),
    ],
)
def test_the_value_of_a_secret_is_hidden_in_a_launch_line(typed: str, shown: str) -> None:
    assert without_secrets(shlex.split(typed)) == shlex.split(shown)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("train.py --api-key s3cr3t 'a b' --hub_token=s3cr3t", "train.py --api-key '***' 'a b' '--hub_token=***'"),
        ("--script=train.py --api-key 's3cr3t", "--script=train.py --api-key '***'"),
        ("HF_TOKEN=s3cr3t", "HF_TOKEN=***"),
        ("--script-env=HF_TOKEN=s3cr3t", "--script-env=HF_TOKEN=***"),
        ("--api-token=s3cr3t", "--api-token=***"),
        ("keys and not 'a b'", "keys and not 'a b'"),
        ("train_token_1a2b3c and bf16", "train_token_1a2b3c and bf16"),
        ("--script=train.py --width 8", "--script=train.py --width 8"),
    ],
)
def test_the_value_of_a_secret_is_not_shown_in_a_command(typed: str, shown: str) -> None:
    assert without_secret(typed) == shown


def test_the_password_of_a_url_is_hidden_in_a_variable() -> None:
    assert without_password("http://me:s3cr3t@proxy:80") == "http://me:***@proxy:80"
