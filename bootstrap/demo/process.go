package main

import (
	"os/exec"
	"syscall"
	"time"
)

// process is a child with its log.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop ends the process in order, or by force after ten seconds.
func (p *process) stop() {
	if p == nil || !p.running() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		p.kill()
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}
