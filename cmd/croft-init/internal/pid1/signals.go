package pid1

import (
	"os"
	"syscall"
)

// lastSignal is the kernel's highest signal; firstFree the first that programs may use freely, as the
// two before it belong to the threading library.
const (
	firstFree  = 34
	lastSignal = 64
)

// passedOn are the forwarded signals: all but those that can't be caught, that concern this process
// itself, or that come from its own faults and runtime.
func passedOn() []os.Signal {
	out := []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGTERM, syscall.SIGSTKFLT, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGVTALRM,
		syscall.SIGWINCH, syscall.SIGIO, syscall.SIGPWR,
	}
	for s := firstFree; s <= lastSignal; s++ {
		out = append(out, syscall.Signal(s))
	}
	return out
}

// means reports whether a signal means termination where there is no program to receive it.
func means(s syscall.Signal) bool {
	switch s {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPWR, firstFree + 3: // the last is systemd's halt signal
		return true
	}
	return false
}
