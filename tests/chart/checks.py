"""What must hold of the charts. `checks.py NAME [FILE...]` prints what does not, and then fails. The files are rendered charts."""

import sys

import configuration
import manifests
import monitoring
import pods
import rights
import values


def main():
    for module in (configuration, manifests, monitoring, pods, rights, values):
        if hasattr(module, sys.argv[1]):
            faults = list(getattr(module, sys.argv[1])(*sys.argv[2:]))
            print("\n".join(faults))
            sys.exit(1 if faults else 0)
    sys.exit(f"no check is called {sys.argv[1]}")


main()
