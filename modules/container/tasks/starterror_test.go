package tasks

import (
	"testing"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// Only the image's fault is final.
func TestStartErrorKinds(t *testing.T) {
	for text, want := range map[string]node.Kind{
		`failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/nope": stat /nope: no such file or directory: unknown`:                                                                    node.Invalid,
		`failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open /run/x/log.json: no such file or directory): /s/runc did not terminate successfully: exit status 1: nsenter: reassociate to namespace failed`: node.Transient,
		`failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open /run/x/log.json: no such file or directory): fork/exec /s/runc: permission denied`:                                                            node.Transient,
		`failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error mounting "proc" to rootfs at "/proc": bufio.Scanner: token too long: unknown`:                  node.Transient,
	} {
		if got := node.KindOf(StartError(errors.New(text), "1-1")); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
