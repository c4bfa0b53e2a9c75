#pragma once

namespace lanescope {

/// What this was built from and for, as texts.
struct BuildInfo {
  const char* version;  ///< Of pyproject.toml.
  const char* commit;   ///< Of git, with "-dirty" where files differed; empty without a checkout.
  const char* cuda;     ///< Version of the CUDA compiler, such as 13.0.
  const char* code;     ///< For which GPUs, such as "sm_90, PTX 7.5, PTX 9.0".
};

BuildInfo build_info();

}  // namespace lanescope
