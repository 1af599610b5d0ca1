// Command inside is the program that the tests of package rootfs run in a container.
// Its arguments are commands, separated by ";". It prints each one's result or error.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The first goroutine stays on the first thread.
func init() { runtime.LockOSThread() }

func main() {
	var command []string
	for _, a := range append(os.Args[1:], ";") {
		if a != ";" {
			command = append(command, a)
			continue
		}
		out, err := run(command[0], append(command[1:], "", ""))
		if err != nil {
			out = "error: " + err.Error()
		}
		fmt.Println(out)
		command = nil
	}
}

func run(what string, args []string) (string, error) {
	a, b := args[0], args[1]
	switch what {
	case "write":
		return "ok", os.WriteFile(a, []byte(b), 0o644)
	case "read":
		raw, err := os.ReadFile(a)
		return strings.TrimSpace(string(raw)), err
	case "mkdir":
		return "ok", os.MkdirAll(a, 0o755)
	case "rename":
		return "ok", os.Rename(a, b)
	case "chown":
		id, _ := strconv.Atoi(b)
		return "ok", os.Chown(a, id, id)
	case "chmod":
		mode, _ := strconv.ParseUint(b, 8, 32)
		return "ok", unix.Chmod(a, uint32(mode))
	case "mknod":
		return "ok", unix.Mknod(a, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	case "stat":
		var st unix.Stat_t
		err := unix.Stat(a, &st)
		return fmt.Sprintf("%d:%d %o", st.Uid, st.Gid, st.Mode&0o7777), err
	case "id":
		return fmt.Sprint(os.Getuid(), os.Geteuid()), nil
	case "as": // another user runs a program, and says who it is then
		id, _ := strconv.Atoi(b)
		cmd := exec.Command(a, "id")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	case "deep": // moves a folder below a very deep one
		return "ok", deep(a, b)
	case "copy":
		raw, err := os.ReadFile(a)
		if err == nil {
			err = os.WriteFile(b, raw, 0o755)
		}
		return "ok", err
	case "swap": // for ever: a folder and a link take turns, and what is in them goes
		fmt.Println("waiting")
		for {
			_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			_ = os.Remove(a + "/y")
			_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			_ = os.Remove(a + "/y")
		}
	case "leave": // the first thread ends, and another one waits for ever
		go func() {
			fmt.Println("waiting")
			for {
				_ = unix.Pause()
			}
		}()
		_, _, err := unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		return "", err
	case "wait":
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGTERM)
		fmt.Println("waiting")
		<-c
		return "ok", nil
	}
	return "", fmt.Errorf("no command %q", what)
}

// deep makes many folders below the folder to, and moves from into the last.
func deep(from, to string) error {
	source, err := os.Open(from[:strings.LastIndex(from, "/")+1])
	if err != nil {
		return err
	}
	if err := os.Chdir(to); err != nil {
		return err
	}
	name := strings.Repeat("d", 250)
	for range 400 {
		if err := os.Mkdir(name, 0o755); err != nil {
			return err
		}
		if err := os.Chdir(name); err != nil {
			return err
		}
	}
	return unix.Renameat(int(source.Fd()), from[strings.LastIndex(from, "/")+1:], unix.AT_FDCWD, "moved")
}
