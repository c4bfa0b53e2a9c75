"""Runs the examples as ``python -m lanescope.examples``; a signal ends them at once."""

from lanescope import interruption

if __name__ == "__main__":
    interruption.begin()  # before anything is loaded that takes its time
    from lanescope.examples.app import main

    main()
