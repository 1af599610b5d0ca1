package runc

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The runtime enters the mount namespace of the container that it creates, and for nothing else.
func TestWrapperEntersNamespaceToCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	runc := program("runc", "#!/bin/sh\nprintf 'runc'; printf ' [%s]' \"$@\"; ulimit -S -c\n")
	enter := program("nsenter", "#!/bin/sh\nprintf 'enter [%s] [%s] ' \"$1\" \"$2\"; shift 2; exec \"$@\"\n")
	script := program("wrapper", Wrapper{Runc: runc, Enter: enter, Containers: dir + "/container", Limits: []string{"ulimit -S -c 0"}}.text())
	t.Setenv("create", "yes")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--root", "/a b", "create", "--bundle", "/x", "1-1"}, "enter [--mount=" + dir + "/container/1-1/mnt] [--] runc [--root] [/a b] [create] [--bundle] [/x] [1-1]0\n"},
		{[]string{"--root", "/a b", "start", "1-1"}, "runc [--root] [/a b] [start] [1-1]0\n"},
		{[]string{"exec", "--process", "/tmp/created", "1-1"}, "runc [exec] [--process] [/tmp/created] [1-1]0\n"},
	} {
		if out, err := exec.Command(script, c.args...).CombinedOutput(); err != nil || string(out) != c.want {
			t.Errorf("%q: %s (%v), want %s", c.args, out, err, c.want)
		}
	}
}
