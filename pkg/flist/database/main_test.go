package database

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The first argument says what this program does in the place of Serve.
func TestMain(m *testing.M) {
	if len(os.Args) != 2 {
		goleak.VerifyTestMain(m)
		return
	}
	do := func(f func(w *bufio.Writer) error) {
		os.Exit(answer(func(_ context.Context, _ *os.File, w *bufio.Writer) error { return f(w) }))
	}
	switch os.Args[1] {
	case "read":
		os.Exit(Serve())
	case "try":
		do(func(*bufio.Writer) error { return try() })
	case "panic":
		panic("what the flist says\x1b[2J")
	case "spin":
		Time.Each = 1
		do(func(*bufio.Writer) error {
			for {
				runtime.KeepAlive(make([]byte, 1))
			}
		})
	case "memory":
		do(func(*bufio.Writer) error {
			var all [][]byte
			for range 1 << 20 {
				part := make([]byte, 1<<20)
				for i := 0; i < len(part); i += 4096 {
					part[i] = 1
				}
				all = append(all, part)
			}
			runtime.KeepAlive(all)
			return nil
		})
	case "nonsense":
		_, _ = os.Stdout.WriteString("nonsense")
		select {}
	case "long":
		_, _ = os.Stdout.WriteString("w\xff\xff\xff\xff")
		select {}
	case "beyond":
		do(func(w *bufio.Writer) error {
			_ = write(w, kindInode, field{number: 1}, field{}, field{}, field{}, field{}, field{}, field{number: 0o040755})
			_ = write(w, kindEnd)
			return write(w, kindTag, field{}, field{})
		})
	case "half":
		_, _ = os.Stdout.WriteString("i\x00\x00")
		os.Exit(0)
	case "endless":
		do(func(w *bufio.Writer) error {
			for i := int64(1); ; i++ {
				if err := write(w, kindInode, field{number: i}, field{number: min(i-1, 1)}, field{bytes: fmt.Append(nil, i)}, field{}, field{}, field{}, field{number: 0o040755}); err != nil {
					return err
				}
			}
		})
	}
	os.Exit(2)
}

// try makes the attempts of a process that a flist has taken over. It returns those that succeeded.
func try() error {
	var well []string
	for what, f := range map[string]func() error{
		"start a program":     func() error { return unix.Exec("/bin/sh", []string{"sh"}, nil) },
		"open a file":         func() error { _, err := os.Open("/proc/self/status"); return err },
		"open a device":       func() error { _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); return err },
		"make a file":         func() error { _, err := os.Create("/tmp/croft-flist-try"); return err },
		"look at a file":      func() error { _, err := os.Lstat("/etc/passwd"); return err },
		"write the flist":     func() error { _, err := unix.Pwrite(fdFlist, []byte{1}, 0); return err },
		"truncate the flist":  func() error { return unix.Ftruncate(fdFlist, 0) },
		"open a socket":       func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); return err },
		"open a local socket": func() error { _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
		"mount":               func() error { return unix.Mount("none", "/", "tmpfs", 0, "") },
		"make a namespace":    func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
		"trace":               func() error { return unix.PtraceAttach(1) },
		"signal":              func() error { return unix.Kill(-1, 0) },
		"raise a limit":       func() error { return unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40}) },
		"become root":         func() error { return unix.Setuid(0) },
		"make memory run": func() error {
			_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
			return err
		},
		"fork": func() error {
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno == 0 && pid == 0 {
				unix.Exit(0)
			}
			if errno != 0 {
				return syscall.Errno(errno)
			}
			return nil
		},
	} {
		if err := f(); err == nil {
			well = append(well, what)
		}
	}
	// What must succeed.
	if _, err := unix.Pread(fdFlist, make([]byte, 1), 0); err != nil {
		well = append(well, err.Error())
	}
	if len(well) > 0 {
		return wrong("cannot be: %s", strings.Join(well, ", "))
	}
	return nil
}
