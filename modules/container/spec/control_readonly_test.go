package spec_test

import "testing"

// A read-only root file system is so also for its root, while the container's own
// mounts stay writable.
func TestControlReadOnlyRoot(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		c := newContainer(t)
		c.ReadOnly = readOnly
		answers := ask[map[string]string](c, "write", "/new", "/dev/shm/new")
		if want := map[bool]string{true: "EROFS", false: "ok"}[readOnly]; answers["/new"] != want || answers["/dev/shm/new"] != "ok" {
			t.Errorf("read-only %t: writing answers %v", readOnly, answers)
		}
	}
}
