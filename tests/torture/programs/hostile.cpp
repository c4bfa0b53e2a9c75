// Programs that are hard to run as if nobody watched them: `hostile NAME` is one of them. Each
// tells on its output what it finds, so that two runs of it can be compared.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>

namespace {

using Program = std::function<int()>;

int ended(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return 99;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int limited(__rlimit_resource what, rlim_t most, const Program& then) {
  const rlimit limit{most, most};
  if (setrlimit(what, &limit) != 0) return 98;
  return then();
}

int told_descriptors() {
  for (int fd = 0; fd < 1024; ++fd)
    if (fcntl(fd, F_GETFD) >= 0) std::printf("%d ", fd);
  std::puts("are open");
  return 0;
}

int told_signals() {
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action{};
    if (sigaction(number, nullptr, &action) != 0) continue;
    if (action.sa_handler == SIG_IGN) std::printf("%d is ignored\n", number);
    if (sigismember(&blocked, number) == 1) std::printf("%d is blocked\n", number);
  }
  return 0;
}

int told_limits() {
  for (int what = 0; what < RLIM_NLIMITS; ++what) {
    rlimit limit{};
    getrlimit(static_cast<__rlimit_resource>(what), &limit);
    std::printf("%d: %ju %ju\n", what, static_cast<std::uintmax_t>(limit.rlim_cur),
                static_cast<std::uintmax_t>(limit.rlim_max));
  }
  const mode_t mask = umask(0);
  std::printf("umask %o, niceness %d, policy %d, dumpable %d, death %d\n", mask,
              getpriority(PRIO_PROCESS, 0), sched_getscheduler(0), prctl(PR_GET_DUMPABLE), 0);
  return 0;
}

volatile sig_atomic_t came = 0;

int waits_for(int number, const Program& ask) {
  signal(number, [](int which) { came = which; });
  ask();
  for (int i = 0; i < 1000 && came == 0; ++i) usleep(5000);
  return came == number ? 11 : 12;
}

int from_queue(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  sigval value{};
  value.sival_int = 77;
  for (int i = 0; i < 3; ++i) sigqueue(getpid(), number, value);
  int sum = 0;
  siginfo_t told;
  for (int i = 0; i < 3; ++i)
    if (sigwaitinfo(&set, &told) == number) sum += told.si_value.sival_int;
  return sum == 231 ? 5 : 6;
}

int child_by(const std::function<long()>& make) {
  const long child = make();
  if (child == 0) _exit(33);
  return ended(static_cast<pid_t>(child));
}

void* nothing(void*) {
  return nullptr;
}

const std::map<std::string, Program> programs{
    {"abort",
     [] {
       abort();
       return 0;
     }},
    {"segv", [] { return raise(SIGSEGV); }},
    {"bus", [] { return raise(SIGBUS); }},
    {"fpe", [] { return raise(SIGFPE); }},
    {"ill", [] { return raise(SIGILL); }},
    {"null", [] { return *reinterpret_cast<volatile int*>(8); }},
    {"kill", [] { return raise(SIGKILL); }},
    {"term", [] { return raise(SIGTERM); }},
    {"int", [] { return raise(SIGINT); }},
    {"pipe", [] { return raise(SIGPIPE); }},
    {"real time", [] { return raise(SIGRTMIN + 1); }},
    {"exit",
     [] {
       std::printf("no line end");
       exit(3);
       return 0;
     }},
    {"_exit",
     [] {
       std::printf("is lost");
       _exit(4);
       return 0;
     }},
    {"quick_exit",
     [] {
       at_quick_exit([] { (void)!write(1, "q\n", 2); });
       quick_exit(5);
       return 0;
     }},
    {"atexit",
     [] {
       atexit([] { std::puts("at exit"); });
       return 6;
     }},
    {"255", [] { return 255; }},
    {"256",
     [] {
       exit(256);
       return 0;
     }},
    {"-1", [] { return -1; }},
    {"main thread",
     [] {
       pthread_t thread;
       pthread_create(
           &thread, nullptr,
           [](void*) -> void* {
             usleep(20000);
             std::puts("last");
             return nullptr;
           },
           nullptr);
       pthread_exit(nullptr);
       return 0;
     }},
    {"descriptors", told_descriptors},
    {"signals", told_signals},
    {"limits", told_limits},
    {"fork", [] { return child_by([] { return fork(); }); }},
    {"_Fork", [] { return child_by([] { return static_cast<long>(_Fork()); }); }},
    {"SYS_fork", [] { return child_by([] { return syscall(SYS_fork); }); }},
    {"clone", [] { return child_by([] { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }); }},
    {"vfork",
     [] {
       const pid_t child = vfork();
       if (child == 0) _exit(34);
       return ended(child);
     }},
    {"double fork",
     [] {
       const pid_t child = fork();
       if (child == 0) {
         if (fork() == 0) {
           usleep(10000);
           _exit(0);
         }
         _exit(35);
       }
       return ended(child);
     }},
    {"fork in handler",
     [] {
       signal(SIGUSR1, [](int) {
         if (fork() == 0) _exit(36);
       });
       raise(SIGUSR1);
       return ended(-1) == 99 ? 0 : 1;
     }},
    {"many forks",
     [] {
       int sum = 0;
       for (int i = 0; i < 50; ++i) sum += child_by([] { return fork(); });
       return sum == 50 * 33 ? 7 : 8;
     }},
    {"exec",
     [] {
       execl("/bin/echo", "echo", "other", nullptr);
       return 1;
     }},
    {"exec nothing",
     [] {
       execl("/nowhere", "x", nullptr);
       return errno;
     }},
    {"setsid",
     [] {
       const pid_t child = fork();
       if (child == 0) _exit(setsid() > 0 ? 3 : 4);
       return ended(child);
     }},
    {"daemon", [] { return daemon(1, 1) == 0 ? 3 : 4; }},
    {"close all",
     [] {
       for (int fd = 0; fd < 1024; ++fd) close(fd);
       return 13;
     }},
    {"close_range", [] { return syscall(SYS_close_range, 3, ~0U, 0) == 0 ? 13 : 14; }},
    {"dup over",
     [] {
       dup2(1, 2);
       (void)!write(2, "both\n", 5);
       return 0;
     }},
    {"broken pipe",
     [] {
       int ends[2];
       (void)!pipe(ends);
       close(ends[0]);
       return write(ends[1], "x", 1) < 0 ? 1 : 2;
     }},
    {"input",
     [] {
       int sum = 0, c = 0;
       while ((c = getchar()) != EOF) sum += c;
       std::printf("%d\n", sum);
       return 0;
     }},
    {"nofile",
     [] { return limited(RLIMIT_NOFILE, 4, [] { return open("/dev/null", O_RDONLY); }); }},
    {"nproc", [] { return limited(RLIMIT_NPROC, 1, [] { return 3; }); }},
    {"fsize",
     [] {
       return limited(RLIMIT_FSIZE, 0, [] {
         FILE* f = tmpfile();
         std::fputs("x", f);
         return std::fflush(f);
       });
     }},
    {"as",
     [] {
       return limited(RLIMIT_AS, 64 << 20, [] { return std::malloc(1 << 30) == nullptr ? 3 : 4; });
     }},
    {"cpu",
     [] {
       return limited(RLIMIT_CPU, 1, [] {
         for (volatile unsigned long i = 0;; ++i) {
         }
         return 0;
       });
     }},
    {"core",
     [] {
       return limited(RLIMIT_CORE, 0, [] {
         abort();
         return 0;
       });
     }},
    {"memlock", [] { return limited(RLIMIT_MEMLOCK, 0, [] { return 3; }); }},
    {"deleted folder",
     [] {
       char name[] = "/tmp/hostileXXXXXX";
       if (mkdtemp(name) == nullptr || chdir(name) != 0 || rmdir(name) != 0) return 1;
       char here[4096];
       return getcwd(here, sizeof here) == nullptr ? errno : 0;
     }},
    {"umask", [] { return static_cast<int>(umask(0777)); }},
    {"traced", [] { return ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 3 : 4; }},
    {"no privileges", [] { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 3 : 4; }},
    {"not dumpable", [] { return prctl(PR_SET_DUMPABLE, 0) == 0 ? 3 : 4; }},
    {"death signal",
     [] {
       int number = -1;
       prctl(PR_GET_PDEATHSIG, &number);
       return number;
     }},
    {"alarm", [] { return waits_for(SIGALRM, [] { return static_cast<int>(alarm(1)); }); }},
    {"itimer",
     [] {
       return waits_for(SIGALRM, [] {
         const itimerval soon{{0, 0}, {0, 5000}};
         return setitimer(ITIMER_REAL, &soon, nullptr);
       });
     }},
    {"alarm ends",
     [] {
       const itimerval soon{{0, 0}, {0, 5000}};
       setitimer(ITIMER_REAL, &soon, nullptr);
       pause();
       return 0;
     }},
    {"timerfd",
     [] {
       const int fd = timerfd_create(CLOCK_MONOTONIC, 0);
       const itimerspec soon{{0, 0}, {0, 5000000}};
       timerfd_settime(fd, 0, &soon, nullptr);
       std::uint64_t times = 0;
       return read(fd, &times, sizeof times) == sizeof times ? static_cast<int>(times) : 9;
     }},
    {"queue", [] { return from_queue(SIGRTMIN + 4); }},
    {"orphaned stop",
     [] {
       const pid_t child = fork();
       if (child == 0) {
         raise(SIGSTOP);
         _exit(21);
       }
       int status = 0;
       waitpid(child, &status, WUNTRACED);
       kill(child, SIGCONT);
       return ended(child);
     }},
    {"group killed softly",
     [] {
       signal(SIGUSR1, [](int) { came = came + 1; });
       kill(0, SIGUSR1);
       usleep(20000);
       return came;
     }},
    {"threads",
     [] {
       pthread_t threads[32];
       for (auto& thread : threads) pthread_create(&thread, nullptr, nothing, nullptr);
       for (auto& thread : threads) pthread_join(thread, nullptr);
       return 3;
     }},
    {"thread exits",
     [] {
       pthread_t thread;
       pthread_create(&thread, nullptr, [](void*) -> void* { exit(44); }, nullptr);
       pause();
       return 0;
     }},
    {"small stack",
     [] {
       return limited(RLIMIT_STACK, 64 << 10, [] {
         execl("/bin/true", "true", nullptr);
         return 1;
       });
     }},
    {"locked memory",
     [] {
       void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
       return mlock(page, 4096) == 0 ? 3 : 4;
     }},
    {"environment",
     [] {
       for (char** word = environ; *word != nullptr; ++word) std::puts(*word);
       return 0;
     }},
};

}  // namespace

/// Copies to the first GPU and back by the driver's own interface, and leaves all of it open.
/// @return whether every call succeeded and the bytes came back.
bool copied_by_cuda() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return false;
  const auto call = [&](const char* name, auto... values) {
    const auto function = reinterpret_cast<int (*)(decltype(values)...)>(dlsym(driver, name));
    return function != nullptr && function(values...) == 0;
  };
  constexpr std::size_t bytes = 1 << 16;
  static unsigned char sent[bytes], returned[bytes];
  for (std::size_t i = 0; i < bytes; ++i) sent[i] = static_cast<unsigned char>(i * 7 + 3);
  int device = 0;
  void* context = nullptr;
  std::uint64_t memory = 0;
  bool good = call("cuInit", 0u) && call("cuDeviceGet", &device, 0) &&
              call("cuDevicePrimaryCtxRetain", &context, device) &&
              call("cuCtxSetCurrent", context) && call("cuMemAlloc_v2", &memory, bytes);
  for (int i = 0; i < 200 && good; ++i)
    good = call("cuMemcpyHtoD_v2", memory, static_cast<const void*>(sent), bytes) &&
           call("cuMemcpyDtoH_v2", static_cast<void*>(returned), memory, bytes);
  usleep(300'000);  // what is killed loses what a trace has not written yet, at most 0.1 s
  // tiny ones that nobody waits for: they may still be gathered
  constexpr std::size_t tiny = 500;
  for (std::size_t i = 0; i < 50 && good && std::getenv("HOSTILE_TINY") != nullptr; ++i)
    good = call("cuMemcpyHtoDAsync_v2", memory + 2 * tiny * i,
                static_cast<const void*>(sent + 2 * tiny * i), tiny, static_cast<void*>(nullptr));
  return good && std::memcmp(sent, returned, bytes) == 0;
}

int main(int count, char** words) {
  if (std::getenv("HOSTILE_CUDA") != nullptr && count == 2 && !copied_by_cuda()) return 121;
  if (count == 2 && std::string("list") == words[1]) {
    for (const auto& [name, program] : programs) std::puts(name.c_str());
    return 0;
  }
  const auto found = programs.find(count > 1 ? words[1] : "");
  return found == programs.end() ? 120 : found->second();
}
