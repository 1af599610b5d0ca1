package main

import (
	"bufio"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/kubernetes/parts/kubernetes/internal/config"
)

// These tests run as root. With the flags of the build they compile little beside themselves:
//
//	CGO_ENABLED=0 go test -trimpath -tags=notest,grpcnotrace ./...
//
// The test's program is kube-server when serverVariable is set. Otherwise it runs the tests in a network namespace of
// its own, which namespaceVariable says: the ports are fixed, and no test speaks to the machine's network.
const (
	serverVariable    = "CROFT_TEST_KUBE_SERVER"
	namespaceVariable = "CROFT_TEST_NAMESPACE"
	// address is the machine's own in the namespace.
	address = "10.7.0.1"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(serverVariable) != "":
		main()
	case os.Getenv(namespaceVariable) == "":
		os.Exit(inNamespace())
	}
	os.Exit(m.Run())
}

// inNamespace runs this program again, as root, and returns its exit code.
func inNamespace() int {
	const script = `set -e; ip link set lo up; ip address add ` + address + `/32 dev lo; exec "$0" "$@"`
	cmd := exec.Command("unshare", append([]string{"--net", "sh", "-c", script, executable()}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), namespaceVariable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

func executable() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// server is a running kube-server, or one that has ended.
type server struct {
	cmd   *exec.Cmd
	lines <-chan string
	// log is the file of its stderr.
	log string
}

// start starts kube-server with a configuration.
func start(t *testing.T, c config.Config) *server {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{cmd: exec.Command(executable(), path), log: filepath.Join(dir, "log")}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.cmd.Env = append(os.Environ(), serverVariable+"=1")
	s.cmd.Stderr = log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	s.lines = lines
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		if t.Failed() {
			t.Logf("the end of kube-server's log:\n%s", s.tail(40))
		}
	})
	return s
}

// tail are the last lines of the log.
func (s *server) tail(n int) string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// says waits for the line as the next one, for minutes: the machine may be busy.
func (s *server) says(t *testing.T, want string) {
	t.Helper()
	select {
	case line, ok := <-s.lines:
		if !ok || line != want {
			t.Fatalf("kube-server says %q, want %q", line, want)
		}
	case <-time.After(5 * time.Minute):
		t.Fatalf("kube-server does not say %q within 5 minutes", want)
	}
}

// starts waits until everything has started.
func (s *server) starts(t *testing.T) {
	t.Helper()
	began := time.Now()
	for _, line := range []string{"etcd ready", "apiserver ready", "scheduler and controller-manager started"} {
		s.says(t, "kube-server: "+line)
		t.Logf("%5.1f s: %s", time.Since(began).Seconds(), line)
	}
}

// ends sends a signal unless it is 0, and waits until the process has ended: it returns the exit code, -1 for a death by
// a signal.
func (s *server) ends(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	if signal != 0 {
		if err := s.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	for range s.lines { // Wait closes the pipe
	}
	var ended *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

// cluster makes a throw-away PKI and the configuration of a control plane, with everything below dir, and returns that
// and the path of the administrator's kubeconfig.
func cluster(t *testing.T, dir string) (config.Config, string) {
	t.Helper()
	a := newAuthority(t, dir)
	a.issue(t, "server", pkix.Name{CommonName: "kube-apiserver"}, net.IPv4(127, 0, 0, 1), net.ParseIP(address))
	a.newKey(t, "accounts")
	admin := a.kubeconfig(t, "admin", pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}})
	return config.Config{
		Etcd: config.Etcd{Dir: filepath.Join(dir, "etcd"), SocketDir: filepath.Join(dir, "socket")},
		APIServer: []string{
			"--advertise-address=" + address, "--secure-port=6443", "--authorization-mode=Node,RBAC",
			"--tls-cert-file=" + a.path("server.crt"), "--tls-private-key-file=" + a.path("server.key"),
			"--client-ca-file=" + a.path("ca.crt"), "--service-cluster-ip-range=10.96.0.0/16",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-signing-key-file=" + a.path("accounts.key"), "--service-account-key-file=" + a.path("accounts.key"),
			"--enable-bootstrap-token-auth=true",
		},
		ControllerManager: []string{
			"--kubeconfig=" + a.kubeconfig(t, "manager", pkix.Name{CommonName: "system:kube-controller-manager"}),
			"--service-account-private-key-file=" + a.path("accounts.key"), "--root-ca-file=" + a.path("ca.crt"),
			"--cluster-signing-cert-file=" + a.path("ca.crt"), "--cluster-signing-key-file=" + a.path("ca.key"),
			"--use-service-account-credentials=true", "--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16",
		},
		Scheduler: []string{"--kubeconfig=" + a.kubeconfig(t, "scheduler", pkix.Name{CommonName: "system:kube-scheduler"})},
	}, admin
}
