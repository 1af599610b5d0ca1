package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/croft-edge/croft/bootstrap/node/inside/wire"
)

// serveBuilds answers the node's requests for programs until the machine has ended.
func serveBuilds(ctx context.Context, conn net.Conn) error {
	for {
		var request wire.Request
		if err := wire.Read(conn, &request); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
				return nil
			}
			return err
		}
		answer := wire.Answer{ID: request.ID}
		program, printed, err := buildFor(ctx, request)
		answer.Program, answer.Printed = program, printed
		if err != nil {
			answer.Failed = true
			answer.Printed += err.Error() + "\n"
		}
		if err := wire.Write(conn, answer); err != nil {
			return err
		}
	}
}

// buildFor builds a program for the node, from this module or from the sources that the request has.
func buildFor(ctx context.Context, request wire.Request) (program []byte, printed string, err error) {
	dir, err := os.MkdirTemp("", "croft-inside-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	folder := request.Folder
	for name, raw := range request.Files {
		folder = dir
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), raw, 0o600); err != nil {
			return nil, "", err
		}
	}
	out := filepath.Join(dir, "program.out")
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", out}, request.Arguments[1:]...)...)
	cmd.Dir, cmd.Env = folder, append(append(os.Environ(), "GOFLAGS=", "GOWORK=off"), request.Environment...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		return nil, string(text), err
	}
	program, err = os.ReadFile(out)
	return program, string(text), err
}
