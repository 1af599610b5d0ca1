package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/croft-edge/croft/internal/testing/sshtest"
)

// machine ADDRESS FILE: an ssh server answers at the address, where only the program $SSH finds it. Its file
// /etc/kubernetes/admin.conf is FILE, while that is there. $HOSTKEY is its host key, $OTHERKEY another one, and the user's key
// is in the file identity.
func machineCommand(ts *testscript.TestScript, _ bool, args []string) {
	dir, file := ts.Getenv("WORK"), ts.MkAbs(args[1])
	s, err := sshtest.New(sshtest.Config{Answer: func(command string, stdout, stderr io.Writer) uint32 {
		text, err := os.ReadFile(file)
		if err != nil || command != "cat /etc/kubernetes/admin.conf" {
			_, _ = fmt.Fprintf(stderr, "%s: \x1b[2Jno such file\r\n", command)
			return 1
		}
		_, _ = stdout.Write(text)
		return 0
	}}, filepath.Join(dir, "identity"))
	ts.Check(err)
	ts.Defer(s.Close)
	program, err := s.Program(dir, args[0])
	ts.Check(err)
	other, err := sshtest.NewHostKey()
	ts.Check(err)
	ts.Setenv("SSH", program)
	ts.Setenv("HOSTKEY", strings.TrimSpace(s.HostKey))
	ts.Setenv("OTHERKEY", strings.TrimSpace(other))
}

// admin-conf FILE ADDRESS: the file becomes the kubeconfig of the control plane at the address.
func adminConf(ts *testscript.TestScript, _ bool, args []string) {
	text, err := adminKubeconfig(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func adminKubeconfig(address string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		return "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	data := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster: {server: "https://%s:6443", certificate-authority-data: %s}
users:
- name: admin
  user: {client-certificate-data: %s, client-key-data: %s}
contexts:
- name: admin@kubernetes
  context: {cluster: kubernetes, user: admin}
current-context: admin@kubernetes
`, address, data("CERTIFICATE", certificate), data("CERTIFICATE", certificate), data("PRIVATE KEY", secret)), nil
}

// TestKubeconfigLeavesNothingBehind: a croft that is ended while it waits for ssh ends that, and removes its folder.
func TestKubeconfigLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	w, err := newWorld(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	if err := w.node.register(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.node.on(); err != nil {
		t.Fatal(err)
	}
	text := "project: p\nnode: " + w.node.key.ID() + "\nduration: 1d\nworkloads:\n  master:\n    kubernetes: {size: 2, network_id: net1, ip: 10.1.2.10, cluster_secret: {secret: literal:secretsecret}}\n"
	if err := os.WriteFile(filepath.Join(dir, "croft.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	temp, started := filepath.Join(dir, "temp"), filepath.Join(dir, "started")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	// It says its process ID once it runs, and waits for ever.
	ssh := filepath.Join(dir, "hanging-ssh")
	if err := os.WriteFile(ssh, []byte("#!/bin/sh\necho $$ >"+started+".new\nmv "+started+".new "+started+"\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	command := func(ctx context.Context, args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, "croft", args...) // see TestMain
		c.Dir, c.Env = dir, append(os.Environ(), "HOME="+dir, "CROFT_EXPLORER="+w.front.URL, "TMPDIR="+temp)
		return c
	}
	for _, args := range [][]string{{"id", "create"}, {"apply", "--wait", "--timeout", "30s"}} {
		if out, err := command(t.Context(), args...).CombinedOutput(); err != nil {
			t.Fatalf("croft %s: %v: %s", args[0], err, out)
		}
	}
	key, err := sshtest.NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	// Where a test is started so that hang-ups are ignored, its children would ignore them too.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	for _, end := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := command(ctx, "kubeconfig", "master", "--host-key", key, "--ssh", ssh)
		var out strings.Builder
		c.Stdout = &out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		pid := waitForText(t, started)
		if left, err := os.ReadDir(temp); err != nil || len(left) != 1 {
			t.Fatalf("%v: %v, %v: the test looks at the wrong folder", end, left, err)
		}
		if err := c.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err == nil || out.Len() > 0 {
			t.Errorf("%v: got %q, %v", end, out.String(), err)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("%v: left behind: %v, %v", end, left, err)
		}
		if _, err := os.Stat(filepath.Join("/proc", pid)); err == nil {
			t.Errorf("%v: ssh runs on", end)
		}
	}
}

// waitForText waits for a file, and takes it away.
func waitForText(t *testing.T, path string) string {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		text, err := os.ReadFile(path)
		if err == nil {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(text))
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
