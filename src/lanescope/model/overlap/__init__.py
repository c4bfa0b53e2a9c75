"""What copies and kernels that overlap take: equations, replay, and the choice of a method."""
