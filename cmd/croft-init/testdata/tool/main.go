// Command tool is what runs in the tests' containers: a static program that can be
// a shell of sorts.
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	args := os.Args[1:]
	if strings.HasSuffix(os.Args[0], "sh") {
		shell()
		return
	}
	if len(args) == 0 {
		args = []string{"wait"}
	}
	switch args[0] {
	case "exit":
		os.Exit(number(args[1]))
	case "kill":
		syscall.Kill(os.Getpid(), syscall.Signal(number(args[1])))
		<-time.After(time.Hour)
	case "say":
		fmt.Println(strings.Join(args[1:], " "))
		fmt.Fprintln(os.Stderr, "and an error")
	case "signals":
		signals(args[1])
	case "wait":
		fmt.Println("waiting")
		<-time.After(time.Hour)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

// signals says which come, to it and to a child in its group, until SIGTERM.
func signals(name string) {
	if name == "parent" {
		if _, err := syscall.ForkExec("/proc/self/exe", []string{"tool", "signals", "child"}, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}}); err != nil {
			panic(err)
		}
	}
	got := make(chan os.Signal, 64)
	for s := 1; s <= 64; s++ {
		if s != int(syscall.SIGURG) && s != int(syscall.SIGCHLD) {
			signal.Notify(got, syscall.Signal(s))
		}
	}
	fmt.Println(name, "ready")
	for s := range got {
		fmt.Println(name, int(s.(syscall.Signal)))
		if s == syscall.SIGTERM {
			os.Exit(9)
		}
	}
}

// shell takes lines: echo TEXT, size, exit CODE, sleep.
func shell() {
	lines := bufio.NewScanner(os.Stdin)
	fmt.Println("shell ready", os.Getpid(), os.Getuid())
	for lines.Scan() {
		command, rest, _ := strings.Cut(lines.Text(), " ")
		switch command {
		case "echo":
			fmt.Println("<" + rest + ">")
		case "size":
			size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
			if err != nil {
				fmt.Println("size:", err)
				continue
			}
			fmt.Printf("%d columns %d rows\n", size.Col, size.Row)
		case "exit":
			os.Exit(number(rest))
		}
	}
}
