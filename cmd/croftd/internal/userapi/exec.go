package userapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/supervise"
)

// maxArgs is the maximum of arguments, and of variables, of a command.
const maxArgs = 1024

// exec turns the connection into a command's streams.
func (d *Door) exec(w http.ResponseWriter, r request) error {
	o, err := execOptions(r)
	if err != nil {
		return err
	}
	if d.Streams == nil {
		return noContainers()
	}
	leave, err := d.streams.take(r.user)
	if err != nil {
		return err
	}
	defer leave()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return errors.Wrap(err, "cannot take the connection over")
	}
	defer conn.Close()
	begun(w)
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return node.WithKind(node.Transient, errors.Wrap(err, "cannot take the connection over"))
	}
	if _, err := conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + nodeapi.Upgrade + "\r\n\r\n")); err != nil {
		return node.WithKind(node.Transient, errors.Wrap(err, "cannot answer"))
	}
	id := r.PathValue("id")
	log := d.Log.With().Str("id", id).Str("user", r.user).Str("remote", r.RemoteAddr).Bool("terminal", o.Terminal).Logger()
	// The log gets the user and address, never the command: arguments hold secrets.
	log.Info().Msg("exec begins")
	var code uint32
	err = nodeapi.ServeExec(r.Context(), conn, buffered.Reader, d.Pulse, func(ctx context.Context, streams nodeapi.ExecIO) (uint32, error) {
		err := supervise.Guard(log, "the command", func() (err error) {
			code, err = d.Streams.Exec(ctx, id, o, streams)
			return err
		})
		return code, err
	})
	log.Info().Uint32("exit_code", code).Str("error_kind", string(node.KindOf(err))).Msg("exec has ended")
	return err
}

// begun marks that the connection no longer carries an HTTP response.
func begun(w http.ResponseWriter) {
	if out, ok := w.(*recorder); ok {
		out.begun = true
	}
}

// execOptions reads and checks the command to run.
func execOptions(r request) (nodeapi.ExecOptions, error) {
	var o nodeapi.ExecOptions
	if !strings.EqualFold(r.Header.Get("Upgrade"), nodeapi.Upgrade) {
		return o, node.Errorf(node.Invalid, "cannot run a command: the header Upgrade is %q, must be %s", short(r.Header.Get("Upgrade")), nodeapi.Upgrade)
	}
	if err := decode(r.body, &o); err != nil {
		return o, err
	}
	console := o.Terminal && len(o.Args) == 0 // of a VM
	if n := len(o.Args); !console && (n < 1 || n > maxArgs || o.Args[0] == "") {
		return o, node.Errorf(node.Invalid, "cannot run a command: args has %d members, must have 1 to %d, the first not empty, or none with a terminal for a VM's console", n, maxArgs)
	}
	if n := len(o.Env); n > maxArgs {
		return o, node.Errorf(node.Invalid, "cannot run a command: env has %d members, at most %d are allowed", n, maxArgs)
	}
	for _, text := range append(append([]string{}, o.Args...), o.Env...) {
		if strings.ContainsRune(text, 0) {
			return o, node.Errorf(node.Invalid, "cannot run a command: a zero byte is in args or env, none is allowed")
		}
	}
	for _, text := range o.Env {
		if at := strings.IndexByte(text, '='); at < 1 {
			return o, node.Errorf(node.Invalid, "cannot run a command: a member of env isn't NAME=VALUE")
		}
	}
	return o, nil
}
