"""Text from others without control characters, and values that may be secrets."""

import io
import shlex
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.launch.other_side import OtherSide
from fixtures.matrix.plain_text import (
    PlainStream,
    is_secret,
    of_launch_line,
    of_pytest,
    one_line,
    quoted,
    shortened,
    within,
    without_secrets,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b2J", "\\x9b2J"),
        ("bell\x07 back\x08 \r\0\x7f", "bell\\x07 back\\x08 \\r\\x00\\x7f"),
        ("right\u202eleft", "right\\u202eleft"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("line\u2028break", "line\\u2028break"),
        ("half \udcff", "half \\udcff"),
        ("ä€ 😀 äö", "ä€ 😀 äö"),
    ],
)
def test_control_characters_are_quoted_and_letters_are_not(text: str, shown: str) -> None:
    assert quoted(text) == quoted(text, lines=True) == shown


def test_line_breaks_stay_where_lines_are_printed_and_what_is_printed_is_quoted() -> None:
    assert quoted("a\n\tb", lines=True) == "a\n\tb"
    assert one_line("a\n\tb") == "a\\n\\tb"
    there = io.StringIO()
    print("\x1b]0;title\x07", "\udcff", file=PlainStream(there))
    assert there.getvalue() == "\\x1b]0;title\\x07 \\udcff\n"


def test_a_long_text_keeps_its_beginning_and_its_end_and_an_object_without_one_its_type() -> None:
    shown = one_line("begin" + "x" * 10**6 + "end", 100)
    assert shown.startswith("beginxxx")
    assert shown.endswith("xxxend")
    assert "(999908 characters)" in shown
    assert len(shown) < 150

    class Silent(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert shortened(Silent(), 100) == "<Silent without a text>"


# Secrets in arguments and variables: which names are of a secret, and which values are hidden


SECRETS = (
    *(
        "--token",
        "--hub-token",
        "--hf_token",
        "HF_TOKEN",
        "hfToken",
        "--hftoken",
        "NCCL_AUTH_TOKEN",
    ),
    *("--key", "--api-key", "TORCH_API_KEY", "apiKey", "--apikey", "--api-keys", "AWS_ACCESS_KEY_ID", "--ssh-key"),
    *("--password", "--passwd", "NCCL_PASSWD", "--db-password", "--passphrase", "CUDA_PASSWORD"),
    *("--secret", "GLOO_SECRET_FILE", "--secrets", "AWS_SECRET_ACCESS_KEY", "--auth", "--basic-auth"),
    *("--credential", "--credentials", "trainer.hub_token", "--wandb_key", "AZURE_STORAGE_KEY"),
)
NO_SECRETS = (
    *("--num-tokens", "--tokens", "--tokenizer", "--tokenizer-path", "TOKENIZERS_PARALLELISM", "--max-tokens"),
    *("--num-key-value-heads", "--keys", "--num-keys", "--key-dim", "--keyframes", "--monkey", "--kv-heads"),
    *("--pad-token", "--mask-token", "--token-dropout", "--max-token-length", "--author", "--passes", "--width"),
    *("NCCL_ALGO", "OMP_NUM_THREADS", "--secretary", "--keep", "--tokenize"),
    *("--primary-key", "--monitor_key", "--ckpt_key", "--data.key", "--rng_key", "--hash-key", "--sort-key"),
    *("--token-shift", "--token-mixer", "--cls_token", "--image-token", "--predict-next-token", "--batch-key"),
)


@pytest.mark.parametrize(("name", "secret"), [*product(SECRETS, [True]), *product(NO_SECRETS, [False])])
def test_these_names_are_of_a_secret_and_those_of_none(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


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
        (["--script", "t.py --api-key s3cr3t 'a b'"], ["--script", "t.py --api-key '***' 'a b'"]),
        (["--script=t.py --api-key 's3cr3t x"], ["--script=t.py --api-key '***'"]),
        (
            ["--script", "t.py --width 8", "-k", "my_token and bf16"],
            ["--script", "t.py --width 8", "-k", "my_token and bf16"],
        ),
        (["-k", "API_KEY", "perf", "--workload", "my.key:M"], ["-k", "API_KEY", "perf", "--workload", "my.key:M"]),
        (["--script-env=HF_TOKEN=s3cr3t x"], ["--script-env=HF_TOKEN=***"]),
        (["--script-env", "HF_TOKEN=s3cr3t"], ["--script-env", "HF_TOKEN=***"]),
        (["--api-token=s3cr3t", "--api-token", "s3cr3t"], ["--api-token=***", "--api-token", "***"]),
    ],
)
def test_the_value_of_a_secret_is_not_shown_in_a_command(typed: list[str], shown: list[str]) -> None:
    assert of_pytest(typed) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:s3cr3t@proxy:80", "http://me:***@proxy:80"),
        ("http://me:s3c@r3t@proxy:80/a@b", "http://me:***@proxy:80/a@b"),
        ("git+https://s3cr3t@host/x", "git+https://***@host/x"),
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("https://host/x?n=8&sig=s3cr3t&width=9", "https://host/x?n=8&sig=***"),
        ("Authorization: Bearer s3cr3t", "Authorization: ***"),
        ("X-Api-Key:s3cr3t", "X-Api-Key:***"),
        ('{"api_key": "s3,cr}3t", "width": 8}', '{"api_key": "***'),
        ("{token:s3cr3t,width:8}", "{token:***"),
        ("{secrets:{a:s3cr3t,b:s3cr3t}}", "{secrets:***"),
        ("python x.py --token s3cr3t --token='s3 cr3t' --width 8", "python x.py --token ***"),
        ("--token=s3 cr3t", "--token=***"),
        ("my.token:MODEL", "my.token:MODEL"),
        ("max_tokens=8,tokenizer=x", "max_tokens=8,tokenizer=x"),
    ],
)
def test_secrets_within_a_text_are_hidden(text: str, shown: str) -> None:
    assert within(text) == shown


# Names of secrets, and names that are none, by how they are joined.
WORDS = st.sampled_from(
    ["token", "password", "passwd", "secret", "api key", "access key", "auth", "credentials", "pwd"]
)
PLAIN = st.sampled_from(["", "hub", "db", "my", "nccl", "torch", "wandb"])
JOINS = [
    lambda words: "-".join(words),
    lambda words: "_".join(words),
    lambda words: "_".join(words).upper(),
    lambda words: "-".join(words).title(),
    lambda words: words[0] + "".join(map(str.title, words[1:])),
]
NAMES = st.builds(lambda join, a, b: join([*a.split(), *b.split()]), st.sampled_from(JOINS), PLAIN, WORDS)
# No quote or blank, which end a value in some of the forms.
VALUES = st.text("abcXYZ019-_.+/=~%", min_size=4).map(lambda text: f"z9{text}9z") | st.just("-s3cr3t")
IN_ARGUMENTS = [
    lambda name, value: [f"--{name}", value],
    lambda name, value: [f"-{name}", value],
    lambda name, value: [f"--{name}={value}"],
    lambda name, value: [f"+hub.{name}={value}"],
    lambda name, value: ["--opts", name.upper().replace("-", "_"), value],
    lambda name, value: ["--opts", f"hub.{name.replace('-', '_')}", value],
    lambda name, value: ["--header", f"X-{name}: {value}"],
    lambda name, value: [f'--json={{"width": 8, "{name}": "{value}"}}'],
    lambda name, value: [f"--run=python x.py --{name} {value} --width 8"],
    lambda name, value: [f"https://host/x?width=8&{name}={value}&n=1"],
    lambda name, value: [f"--url=https://me:{value.replace('/', '')}@host"],
]


@given(name=NAMES, value=VALUES, form=st.sampled_from(IN_ARGUMENTS), n=st.integers(0, 2))
def test_no_form_of_a_secret_is_shown(name: str, value: str, form: Callable[[str, str], list[str]], n: int) -> None:
    given = [*["--width", "8"][:n], *form(name, value), "--depth", "9"]
    line = shlex.join(["train.py", *given])
    others = [value.replace("/", ""), value]
    for shown in (
        shlex.join(without_secrets(given)),
        of_launch_line(line),
        shlex.join(of_pytest(["--script", line, f"--script={line}"])),
    ):
        assert not any(other in shown for other in others)
        assert "--depth 9" in shown


@given(name=NAMES.map(lambda name: name.replace("-", "_")), value=VALUES)
def test_no_variable_that_is_a_secret_is_shown(name: str, value: str) -> None:
    assert value not in within(f"{name}={value}")
    assert value not in OtherSide(variables={name: value}).name
    assert is_secret(name)


@given(
    name=st.builds(
        lambda join, words: join(words),
        st.sampled_from(JOINS),
        st.permutations(["num", "tokens"])
        | st.permutations(["key", "value", "heads", "num"])
        | st.permutations(["max", "token", "length"])
        | st.just(["tokenizer"]),
    ),
    value=st.text("abc019-_./", min_size=1).filter(lambda text: not text.startswith("-")),
)
def test_no_size_of_a_model_is_hidden(name: str, value: str) -> None:
    given = [f"--{name}", value, f"{name}={value}", name, value]
    assert without_secrets(given) == given
