// Command tool is the program that these tests' containers run.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"serve"}
	}
	switch filepath.Base(args[0]) {
	case "serve": // ends when it is told to
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM, syscall.SIGQUIT)
		fmt.Println("serving", strings.Join(args[1:], " "))
		fmt.Println("stopped by", <-stop)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("stubborn")
		time.Sleep(time.Hour)
	case "exit": // CODE: says 30 lines, ends
		for i := range 30 {
			fmt.Println("line", i)
		}
		fmt.Fprintln(os.Stderr, "the end")
		os.Exit(number(args[1]))
	case "once": // FILE CODE: ends with the code the first time, then serves
		if _, err := os.Stat(args[1]); err != nil {
			_ = os.WriteFile(args[1], nil, 0o600)
			fmt.Println("for the first time")
			os.Exit(number(args[2]))
		}
		time.Sleep(time.Hour)
	case "say":
		fmt.Println(strings.Join(args[1:], " "))
	case "cat":
		n, err := io.Copy(os.Stdout, os.Stdin)
		fmt.Fprintln(os.Stderr, n, err)
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "read":
		raw, err := os.ReadFile(args[1])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Stdout.Write(raw)
	case "write":
		if err := os.WriteFile(args[1], []byte(args[2]), 0o600); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	case "deep": // FROM TO: moves a folder many folders deep
		if err := deep(args[1], args[2]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	case "flood": // N lines
		for i := range number(args[1]) {
			fmt.Println("line", i)
		}
	case "eat": // N MiB
		kept := make([]byte, number(args[1])<<20)
		for i := range kept {
			kept[i] = byte(i)
		}
		fmt.Println("ate", len(kept))
	case "hold": // N MiB, and goes on
		kept := make([]byte, number(args[1])<<20)
		for i := range kept {
			kept[i] = byte(i)
		}
		fmt.Println("holds", len(kept))
		time.Sleep(time.Hour)
	case "size": // of the terminal, until a line comes
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, syscall.SIGWINCH)
		go func() {
			for {
				w, h, err := term.GetSize(0)
				fmt.Println("size", w, h, err)
				<-resized
			}
		}()
		_, _ = os.Stdin.Read(make([]byte, 1))
	case "leave": // a child that holds the output open
		_ = exec.Command("/proc/self/exe", "sleep").Start()
		child := exec.Command("/proc/self/exe", "sleep")
		child.Stdout = os.Stdout
		_ = child.Start()
		fmt.Println("left", child.Process.Pid)
	case "sleep":
		time.Sleep(time.Hour)
	}
}

// deep makes folders in the folder to, each in the one before, and moves from into the last. The path
// of that is longer than any call takes.
func deep(from, to string) error {
	source, err := os.Open(filepath.Dir(from))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := os.Chdir(to); err != nil {
		return err
	}
	name := strings.Repeat("d", 250)
	for range 400 {
		err := os.Mkdir(name, 0o755)
		if errors.Is(err, unix.ENAMETOOLONG) && confined() {
			if err := os.Chdir(".."); err != nil { // there is room for another name
				return err
			}
			break
		}
		if err != nil {
			return err
		}
		if err := os.Chdir(name); err != nil {
			return err
		}
	}
	return unix.Renameat(int(source.Fd()), filepath.Base(from), unix.AT_FDCWD, "moved")
}

// confined reports whether AppArmor checks what this process does. It knows no path that is longer than its parameter path_max, 8 KiB
// (Linux, security/apparmor/lsm.c): such a process gets no deeper.
func confined() bool {
	label, err := os.ReadFile("/proc/self/attr/current")
	return err == nil && strings.HasSuffix(strings.TrimRight(string(label), "\x00\n"), "(enforce)")
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}
