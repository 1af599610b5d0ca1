package program_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/program"
	"github.com/croft-edge/croft/pkg/node"
)

// Another container has a lease on a program in a volume: an open would wait up to 45 s for its
// end. The node doesn't wait.
func TestLeaseIsNotWaitedFor(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "program")
	if err := os.WriteFile(path, []byte("#!/program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	err = program.Check(root, 0, &specs.Process{Args: []string{"/program"}})
	if node.KindOf(err) != node.Transient {
		t.Errorf("%v is %s, want %s", err, node.KindOf(err), node.Transient)
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		t.Fatal(err)
	}
	if err := program.Check(root, 0, &specs.Process{Args: []string{"/program"}}); node.KindOf(err) != node.Invalid {
		t.Errorf("a script that is its own interpreter: %v", err)
	}
}
