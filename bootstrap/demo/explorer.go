package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// explorer is the demo's, with the liar in front of it.
type explorer struct {
	stage   *stage
	process *process
	address string
	liar    *liar
}

// run starts the explorer and waits until it answers.
func (e *explorer) run(ctx context.Context) error {
	portFile := e.stage.path("explorer.address")
	_ = os.Remove(portFile)
	p, err := e.stage.start("explorer", "explorer", "--listen", "127.0.0.1:0", "--port-file", portFile, "--db", e.stage.path("explorer.db"))
	if err != nil {
		return err
	}
	e.process = p
	err = until(ctx, 10*time.Second, "the explorer answers", func() (bool, error) {
		if !p.running() {
			return false, fmt.Errorf("the explorer has ended; its log is %s", p.log)
		}
		address, err := os.ReadFile(portFile)
		if err != nil {
			return false, err
		}
		e.address = strings.TrimPrefix(strings.TrimSpace(string(address)), "http://")
		return answers(ctx, "http://"+e.address+"/healthz")
	})
	if e.liar != nil {
		e.liar.pointAt(e.address)
	}
	return err
}
