// Command pause is the first process of a pod: it holds the pod's namespaces, reaps the children that the pod's other
// processes leave behind, and ends with code 0 at SIGTERM or SIGINT.
package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT)
	pause(signals)
}

// pause reaps children at each SIGCHLD until another signal comes. It looks for them at the beginning too: a child
// that ended before the signals were asked for has sent none. Signals that come at once may be received as one, so that
// all children that have ended are reaped each time.
func pause(signals <-chan os.Signal) {
	reap()
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects all children that have ended.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
