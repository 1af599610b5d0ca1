package network_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/pkg/sys"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// pin makes a file that keeps the namespace at source, or a new network
// namespace that a user namespace owns, as a container's is.
func pin(t *testing.T, source string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "croft-kept-")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "net")
	t.Cleanup(func() {
		unpin(t, file)
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if source == "" {
		repin(t, file)
		return file
	}
	if err := keep(file, source); err != nil {
		t.Fatal(err)
	}
	return file
}

// repin makes the new one at a path of its choice.
func repin(t *testing.T, file string) {
	t.Helper()
	const ids = "0:1000000000:65536"
	const attempts = 5
	for attempt := 1; ; attempt++ {
		err := sys.UnshareAfterEnterUserns(ids, ids, syscall.CLONE_NEWNET, func(pid int) error {
			return keep(file, fmt.Sprintf("/proc/%d/ns/net", pid))
		})
		if err == nil {
			return
		}
		// The library's process is gone before the callback now and then, on a busy machine.
		if !errors.Is(err, syscall.ENOENT) || attempt == attempts {
			t.Fatal(err)
		}
	}
}

func keep(file, source string) error {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	return syscall.Mount(source, file, "", syscall.MS_BIND, "")
}

func unpin(t *testing.T, file string) {
	t.Helper()
	if err := netns.Remove(file); err != nil && node.KindOf(err) != node.NotExist {
		t.Error(err)
	}
}

// serve answers HTTP in the namespace of that path until the test is over, and
// does so on its loopback too.
func serve(t *testing.T, path, answer string) {
	t.Helper()
	var l net.Listener
	err := netns.Do(path, func() (err error) {
		l, err = net.Listen("tcp", ":80")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, answer)
	})}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
}

// ask is what answers at that address, from the namespace of that path.
func ask(path, at string) (answer string, err error) {
	err = netns.Do(path, func() error {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(at, "80"), patience)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		raw, err := io.ReadAll(conn)
		answer = string(raw)
		return err
	})
	return answer, err
}

// reaches fails when what answers there isn't that.
func reaches(t *testing.T, path, at, want string) {
	t.Helper()
	if got, err := ask(path, at); err != nil || !strings.HasSuffix(got, want) {
		t.Errorf("%s answers %q (%v), want %q", at, got, err, want)
	}
}

// A container's network namespace belongs to a user namespace, and a file keeps
// it: it works like any other's, its loopback too.
func TestAMemberByAFileWorks(t *testing.T) {
	h := newHousehold(t)
	file := pin(t, "")
	m, err := h.networks.Join(t.Context(), node.MemberSpec{Network: h.spec.ID, Member: "7-1", Name: "kept", Namespace: file})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, file, "of the kept one")
	cat := netns.OfProcess(h.catPID)
	for _, at := range []string{m.IPv4, m.IPv6} {
		reaches(t, cat, at, "of the kept one")
		reaches(t, file, at, "of the kept one")
	}
	reaches(t, file, "127.0.0.1", "of the kept one")
	reaches(t, file, "::1", "of the kept one")
	h.restart()
	run(t, file, "ip link set eth0 down")
	h.drifts("eth0")
	h.mends(t)
	reaches(t, cat, m.IPv4, "of the kept one")
	run(t, file, "ip link del eth0")
	h.mends(t)
	reaches(t, cat, m.IPv4, "of the kept one")
}

// TestAMemberWhoseNamespaceIsAnother is told whether nothing is at its path or
// another namespace, and comes back by joining again.
func TestAMemberWhoseNamespaceIsAnother(t *testing.T) {
	h := newHousehold(t)
	file := pin(t, "")
	spec := node.MemberSpec{Network: h.spec.ID, Member: "7-1", Namespace: file, IPs: []string{"10.1.2.70"}}
	if _, err := h.networks.Join(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	says := func(want string) {
		t.Helper()
		list, err := h.networks.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if m := list[0].Members[2]; list[0].Drift != "" || m.IPv4 != "10.1.2.70" || !strings.HasSuffix(m.Drift, want) || want == "" && m.Drift != "" {
			t.Errorf("listed %+v, want a member that %q", list, want)
		}
	}
	// While the other one is made, the old one is kept: it can't be the same.
	old := pin(t, file)
	unpin(t, file)
	says("is gone")
	repin(t, file)
	says("is another one")
	h.restart()
	says("is another one")
	_, err := h.networks.Join(t.Context(), node.MemberSpec{Network: h.spec.ID, Member: "8-1", PID: h.catPID, IPs: spec.IPs})
	if node.KindOf(err) != node.Refused {
		t.Errorf("its address was given away: %v", err)
	}
	if _, err := h.networks.Join(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	says("")
	serve(t, file, "of the new one")
	reaches(t, netns.OfProcess(h.catPID), "10.1.2.70", "of the new one")
	if err := netns.Do(old, func() error { _, err := net.InterfaceByName("eth0"); return err }); err == nil {
		t.Error("the old namespace has still a link of the network")
	}
	h.works()
}
