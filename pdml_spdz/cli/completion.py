"""pdml-spdz completion: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from pdml_spdz.cli import sections
from pdml_spdz.cli.words import echo

VARIABLE = "_PDML_SPDZ_COMPLETE"


@sections.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Completion of commands and options, for your shell.

    Prints a script. Put one of these lines into the shell's own start-up file.

    \b
    Examples:
      pdml-spdz completion bash      in ~/.bashrc:   eval "$(pdml-spdz completion bash)"
      pdml-spdz completion zsh       in ~/.zshrc:    eval "$(pdml-spdz completion zsh)"
      pdml-spdz completion fish      in ~/.config/fish/completions/pdml-spdz.fish
    """
    found = get_completion_class(shell)
    assert found is not None  # click has these three
    echo(found(click.get_current_context().find_root().command, {}, "pdml-spdz", VARIABLE).source())
