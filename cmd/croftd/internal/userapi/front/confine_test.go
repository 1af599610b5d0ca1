package front

import (
	"context"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi"
	"github.com/croft-edge/croft/pkg/confine"
	"github.com/croft-edge/croft/pkg/sign"
)

// The first argument selects what this program does instead of Serve, once it is confined.
func TestMain(m *testing.M) {
	if len(os.Args) != 2 {
		os.Exit(m.Run())
	}
	inside, ok := map[string]func() error{"try": try, "memory": eat}[os.Args[1]]
	if !ok {
		os.Exit(m.Run())
	}
	if err := serve(fdControl, inside); err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
	}
	os.Exit(1)
}

// eat allocates memory until that fails.
func eat() error {
	var all [][]byte
	for range 4096 {
		part := make([]byte, 1<<20)
		for i := 0; i < len(part); i += 4096 {
			part[i] = 1
		}
		all = append(all, part)
	}
	runtime.KeepAlive(all)
	return errors.New("it had 4 GiB")
}

// try does what a captured process would try, and reports the successes.
func try() error {
	var well []string
	for what, f := range map[string]func() error{
		"start a program":       func() error { return unix.Exec("/bin/sh", []string{"sh"}, nil) },
		"open a file":           func() error { _, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0); return err },
		"see a file":            func() error { return unix.Stat("/etc/passwd", &unix.Stat_t{}) },
		"see this process":      func() error { _, err := unix.Readlink("/proc/self/exe", make([]byte, 99)); return err },
		"remove a file":         func() error { return unix.Unlink("/nothing") },
		"make a folder":         func() error { return unix.Mkdir("/tmp/croft-try", 0o700) },
		"go elsewhere":          func() error { return unix.Chdir("/tmp") },
		"open a socket":         func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); return err },
		"open a local socket":   func() error { _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
		"make a pair":           func() error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
		"connect":               func() error { return unix.Connect(fdControl, &unix.SockaddrUnix{Name: "/run/croft/x"}) },
		"bind":                  func() error { return unix.Bind(fdControl, &unix.SockaddrUnix{Name: "/tmp/croft-try"}) },
		"shut down":             func() error { return unix.Shutdown(fdControl, unix.SHUT_RDWR) },
		"raise a buffer":        func() error { return unix.SetsockoptInt(fdControl, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<24) },
		"mark packets":          func() error { return unix.SetsockoptInt(fdControl, unix.SOL_SOCKET, unix.SO_MARK, 1) },
		"mount":                 func() error { return unix.Mount("none", "/", "tmpfs", 0, "") },
		"change the root":       func() error { return unix.Chroot("/") },
		"make a user namespace": func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
		"trace":                 func() error { return unix.PtraceAttach(1) },
		"signal":                func() error { return unix.Kill(-1, 0) },
		"raise a limit":         func() error { return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}) },
		"fork": func() error {
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno == 0 && pid == 0 {
				unix.Exit(0)
			}
			if errno != 0 {
				return errno
			}
			return nil
		},
		"make memory run": func() error {
			_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
			return err
		},
	} {
		if err := f(); !errors.Is(err, unix.EPERM) {
			well = append(well, what)
		}
	}
	return errors.Errorf("went well: %s.", strings.Join(well, ", "))
}

// book is a log that is read while it is written.
type book struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// ends runs the door with this program, and returns the first line about how its process ended.
func ends(t *testing.T, as string) string {
	t.Helper()
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	log := &book{}
	d, err := userapi.Listen(t.Context(), userapi.Config{
		NodeID: key.ID(), Listen: "127.0.0.1:0", Command: []string{"/proc/self/exe", as}, Log: zerolog.New(log),
		Now: func() (time.Time, bool) { return time.Now(), true },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for d.Restarts() == 0 && ctx.Err() == nil {
		<-time.After(10 * time.Millisecond)
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	line, _, _ := strings.Cut(log.text.String(), "\n")
	return line
}

// TestACapturedProcessMayDoNothingElse: everything but the use of its own descriptors fails.
func TestACapturedProcessMayDoNothingElse(t *testing.T) {
	if got := ends(t, "try"); !strings.Contains(got, "went well: .") {
		t.Error(got)
	}
}

// TestTheProcessHasACeiling: it ends when it takes too much memory. The race detector alone exceeds any
// limit: make test runs this without it too.
func TestTheProcessHasACeiling(t *testing.T) {
	if confine.RaceDetector {
		return
	}
	if got := ends(t, "memory"); !strings.Contains(got, "out of memory") && !strings.Contains(got, "cannot allocate memory") {
		t.Error(got)
	}
}
