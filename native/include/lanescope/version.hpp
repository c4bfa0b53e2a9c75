#pragma once

// The one place of lanescope's version: pyproject.toml and CMake read it here.
#define LANESCOPE_VERSION_MAJOR 0
#define LANESCOPE_VERSION_MINOR 3
#define LANESCOPE_VERSION_PATCH 0
