package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const whole = `{"etcd": {"dir": "/var/lib/etcd", "socket_dir": "/run/kube-server"},
 "apiserver": ["--secure-port=6443", "--allow-privileged"], "controller_manager": ["--kubeconfig=/a"], "scheduler": ["--kubeconfig=/b"]}`

func TestDecode(t *testing.T) {
	c, err := Decode([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Etcd, (Etcd{Dir: "/var/lib/etcd", SocketDir: "/run/kube-server"}); got != want {
		t.Errorf("etcd: %+v, want %+v", got, want)
	}
	for _, f := range []struct {
		name      string
		got, want []string
	}{
		{"apiserver", c.APIServerFlags(), []string{"--etcd-servers=unix:///run/kube-server/etcd.sock", "--shutdown-send-retry-after=true",
			"--shutdown-watch-termination-grace-period=1s", "--secure-port=6443", "--allow-privileged"}},
		{"controller manager", c.ControllerManagerFlags(), []string{"--leader-elect=false", "--bind-address=127.0.0.1", "--controller-shutdown-timeout=2s", "--kubeconfig=/a"}},
		{"scheduler", c.SchedulerFlags(), []string{"--leader-elect=false", "--bind-address=127.0.0.1", "--kubeconfig=/b"}},
	} {
		if !slices.Equal(f.got, f.want) {
			t.Errorf("%s: %q, want %q", f.name, f.got, f.want)
		}
	}
}

// Each replacement of a part of the whole configuration must be refused with an error that names the member.
func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"scheduler"`, `"schedulers"`, `unknown field "schedulers"`},
		{`"dir"`, `"folder"`, `unknown field "folder"`},
		{`"/var/lib/etcd"`, `1`, `etcd.dir`},
		{`"--allow-privileged"`, `7`, `apiserver`},
		{`["--kubeconfig=/b"]}`, `["--kubeconfig=/b"]} {}`, `behind the object`},
		{`"/var/lib/etcd"`, `""`, `etcd.dir is missing`},
		{`"/var/lib/etcd"`, `"lib"`, `etcd.dir is "lib"`},
		{`"/run/kube-server"`, `"/run/../x"`, `etcd.socket_dir is "/run/../x"`},
		{`"/run/kube-server"`, `"/` + strings.Repeat("x", 120) + `"`, `etcd.socket_dir is too long`},
		{`["--kubeconfig=/b"]`, `[]`, `scheduler has no flags`},
		{`"--allow-privileged"`, `"allow-privileged"`, `apiserver[1] is "allow-privileged"`},
		{`"--allow-privileged"`, `"--"`, `apiserver[1] is "--"`},
		{`"--allow-privileged"`, `"---x"`, `apiserver[1] is "---x"`},
		{`"--allow-privileged"`, `"--a b"`, `apiserver[1] is "--a b"`},
		{`"--allow-privileged"`, `"--etcd-servers=http://x"`, `apiserver[1]: --etcd-servers cannot be given`},
		{`"--allow-privileged"`, `"--etcd_servers=http://x"`, `apiserver[1]: --etcd-servers cannot be given`},
		{`"--kubeconfig=/a"`, `"--leader-elect"`, `controller_manager[0]: --leader-elect cannot be given`},
		{`"--kubeconfig=/b"`, `"--leader-elect=true"`, `scheduler[0]: --leader-elect cannot be given`},
		{`--secure-port=6443`, `--secure-port=0`, `apiserver[0]: --secure-port is "0"`},
		{`--secure-port=6443`, `--secure-port=70000`, `apiserver[0]: --secure-port is "70000"`},
		{`--secure-port=6443`, `--bind-address=host`, `apiserver[0]: --bind-address is "host"`},
	} {
		text := strings.Replace(whole, c.from, c.to, 1)
		if text == whole {
			t.Errorf("%s is not in the configuration", c.from)
		}
		if _, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: error %v, want one with %q", c.to, c.from, err, c.want)
		}
	}
}

func TestReadyURL(t *testing.T) {
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "https://127.0.0.1:6443/readyz"},
		{[]string{"--secure-port=8443"}, "https://127.0.0.1:8443/readyz"},
		{[]string{"--secure_port=8443", "--secure-port=8444"}, "https://127.0.0.1:8444/readyz"},
		{[]string{"--bind-address=0.0.0.0"}, "https://127.0.0.1:6443/readyz"},
		{[]string{"--bind-address=::"}, "https://127.0.0.1:6443/readyz"},
		{[]string{"--bind-address=10.1.2.3"}, "https://10.1.2.3:6443/readyz"},
		{[]string{"--bind-address=fd00::1", "--secure-port=1"}, "https://[fd00::1]:1/readyz"},
	} {
		if got, err := (Config{APIServer: c.flags}).ReadyURL(); err != nil || got != c.want {
			t.Errorf("%q: %s, %v; want %s", c.flags, got, err, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if _, err := Read(path); err == nil {
		t.Error("a missing file was read")
	}
	if err := os.WriteFile(path, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "etcd.dir") {
		t.Errorf("error %v, want one that names the file and the member", err)
	}
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err != nil {
		t.Error(err)
	}
}
