"""Commands for a shell: a secret is a variable, and what the shell makes of the command is as it was typed."""

import os
import subprocess
import sys

import pytest

from fixtures.matrix.secret_values import of_pytest
from fixtures.report.next_command import ShellVariables, command_again

PROGRAM = (sys.executable, "-c", "import sys; print(sys.argv[1:])")


@pytest.mark.parametrize(
    ("typed", "variables"),
    [
        (["--script", "train.py --token s3cr3t --width 8"], {"TOKEN": "s3cr3t"}),
        (["--script=my.py --api-key='s3 cr3t' '$HOME' \"`x`\""], {"API_KEY": "s3 cr3t"}),
        (["--script-env=HF_TOKEN=s3cr3t"], {"HF_TOKEN": "s3cr3t"}),
        (
            ["--script=a.py --token x", "--script=b.py --token y", "--script=c.py --token x"],
            {"TOKEN": "x", "TOKEN_2": "y"},
        ),
        (["--script=a.py http://me:s3cr3t@host"], {"PASSWORD": "s3cr3t"}),
    ],
)
def test_the_command_with_a_secret_works_with_the_variable(typed: list[str], variables: dict[str, str]) -> None:
    secrets = ShellVariables()
    command = command_again(of_pytest(typed, secrets.hide), PROGRAM)
    assert secrets.names == list(variables)
    assert not any(secret in command for secret in variables.values() if len(secret) > 1)
    done = subprocess.run(
        ["bash", "-c", command], env=os.environ | variables, capture_output=True, text=True, check=True
    )
    words = [split(one) for one in eval(done.stdout)]
    assert words == [split(one) for one in typed]


def split(argument: str) -> list[str]:
    """As the suite splits a launch line."""
    import shlex

    return shlex.split(argument.removeprefix("--script="))
