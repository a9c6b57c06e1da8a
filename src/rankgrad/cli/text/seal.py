"""`rankgrad text seal`: accepts the files of an encoder that were edited by hand."""

from pathlib import Path
from typing import Annotated

import typer


def seal(
    folder: Annotated[Path, typer.Argument(help="Folder of a text ranker, or of an encoder.")],
) -> None:
    """Accept edited files of a text ranker: write the hashes of its encoder again.

    A saved encoder contains hashes of its files, so that damage is noticed. After an edit by hand, or after another
    program has written to the folder, this command checks that the encoder can be loaded and records its files.

    Example: `rankgrad text seal runs/a`
    """
    from rankgrad.cli.json_output import messages
    from rankgrad.cli.text.text_models import is_model
    from rankgrad.errors import bad_value
    from rankgrad.settings.text import check_encoder
    from rankgrad.text.encoder_files import ENCODER
    from rankgrad.text.encoder_seal import seal_encoder
    from rankgrad.text.model import TextModel

    encoder = folder / ENCODER if is_model(folder) else folder
    if not encoder.is_dir():
        bad_value("folder", "be a folder with the files of an encoder", repr(str(folder)))
    check_encoder(encoder)
    count = seal_encoder(encoder)
    if encoder != folder:
        TextModel.load(folder)
    messages().print(f"{count} files sealed: {encoder}", markup=False)
