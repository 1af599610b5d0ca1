package zdb

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	pkgerrors "github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/zdb/admin"
	"github.com/croft-edge/croft/modules/zdb/socket"
	"github.com/croft-edge/croft/pkg/node"
)

// TestReasonsHaveNoPaths: they may reach a tenant.
func TestReasonsHaveNoPaths(t *testing.T) {
	dir := t.TempDir()
	nobody := func(path string) error {
		err := admin.Ask(t.Context(), path, func(admin.Client) error { return nil })
		_, greetErr := greet(t.Context(), path)
		if err.Error() != greetErr.Error() {
			t.Errorf("%v, and %v", err, greetErr)
		}
		return err
	}
	file := filepath.Join(dir, "file")
	dead := filepath.Join(dir, "dead")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(dead, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{admin.Socket, handoverSocket} {
		l, err := socket.Listen(filepath.Join(dead, name), 0o600)
		if err == nil {
			err = l.UnixListener.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		dir: "it doesn't answer: no such file or directory", file: "it doesn't answer: not a directory", dead: "it doesn't answer: connection refused",
	} {
		if err := nobody(path); err.Error() != want || node.KindOf(err) != node.Transient {
			t.Errorf("it is %v, want %s", err, want)
		}
	}
	deep := pkgerrors.Wrapf(pkgerrors.Wrap(&net.OpError{Op: "read", Net: "unix", Err: os.ErrDeadlineExceeded}, "cannot read /secret"), "cannot ask /secret")
	if got := socket.Reason(deep).Error(); got != "i/o timeout" {
		t.Errorf("it is %q", got)
	}
	if got := socket.Reason(pkgerrors.Wrap(pkgerrors.New("its version is 2, must be 1"), "cannot ask /secret")).Error(); got != "its version is 2, must be 1" {
		t.Errorf("it is %q", got)
	}
}
