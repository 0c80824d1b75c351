"""python -m pdml_spdz"""

from pdml_spdz.cli.app import main

main()
