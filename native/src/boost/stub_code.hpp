#pragma once

// The instructions of stubs, as text for an assembler. A stub takes the address of the pointer to
// its function into a register that carries no argument, looks whether a run is under way, and
// jumps to lanescope_stub_settles or to the function.

#define LANESCOPE_STUBS 2048
#define LANESCOPE_STUB_BYTES 32
#define LANESCOPE_TEXT_OF(value) #value
#define LANESCOPE_TEXT(value) LANESCOPE_TEXT_OF(value)

#if defined(__x86_64__)
/// @param function where the pointer to its function is.
#define LANESCOPE_STUB(function)           \
  "  endbr64\n"                            \
  "  cmpb $0, lanescope_boost_run(%rip)\n" \
  "  leaq " function                       \
  "(%rip), %r11\n"                         \
  "  jne lanescope_stub_settles\n"         \
  "  jmpq *(%r11)\n"                       \
  "  .balign 32\n"
/// Puts the address of `function` there, which is known as the library is loaded.
#define LANESCOPE_POINTER(function) "  .quad " function "\n"
#elif defined(__aarch64__)
#define LANESCOPE_STUB(function)                   \
  "  hint #34\n" /* bti c */                       \
  "  adrp x16, lanescope_boost_run\n"              \
  "  ldrb w16, [x16, :lo12:lanescope_boost_run]\n" \
  "  adrp x17, " function                          \
  "\n"                                             \
  "  add x17, x17, :lo12:" function                \
  "\n"                                             \
  "  cbnz w16, lanescope_stub_settles\n"           \
  "  ldr x16, [x17]\n"                             \
  "  br x16\n"                                     \
  "  .balign 32\n"
#define LANESCOPE_POINTER(function) "  .xword " function "\n"
#else
#error "stubs are written for x86-64 and aarch64 only"
#endif
