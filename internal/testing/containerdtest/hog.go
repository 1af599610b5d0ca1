package containerdtest

import (
	"os"
	"os/exec"
	"testing"
)

// Hog fills the memory of control groups, given by their folders, with a file on a tmpfs, so that the
// kernel kills the process with the most memory there. end stops it and frees that memory.
func Hog(tb testing.TB, groups []string) (end func()) {
	tb.Helper()
	file, err := os.CreateTemp("/dev/shm", "croft-hog-")
	if err != nil {
		tb.Fatal(err)
	}
	file.Close()
	script := `for dir in "$@"; do echo $$ >"$dir/cgroup.procs"; done; exec dd if=/dev/zero of="$0" bs=64k count=32768`
	cmd := exec.CommandContext(tb.Context(), "sh", append([]string{"-c", script, file.Name()}, groups...)...)
	if err := cmd.Start(); err != nil {
		_ = os.Remove(file.Name())
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	end = func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = os.Remove(file.Name())
	}
	tb.Cleanup(end)
	return end
}
