package nodetest

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/container/logs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// images is the folder of the world's images, from which its nodes take them.
func (w *World) images() string { return w.Path("images") }

// Image writes an image into the world's folder of images and returns its
// path: what a reservation names.
func (w *World) Image(name string, b *imagetest.Builder) string {
	w.Helper()
	path := filepath.Join(w.images(), name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if _, err := b.Layout(path); err != nil {
		w.Fatal(err)
	}
	return path
}

// Server is the path of the image of imagetest's server.
func (w *World) Server() string {
	w.Helper()
	return w.Image("server", imagetest.Server())
}

// Container is a reservation for a container of the world's user: the server,
// on the network net1, but for what change changes.
func (w *World) Container(n *Node, change func(*workload.Container)) *workload.Reservation {
	w.Helper()
	return w.ContainerOf(w.User, n, change)
}

// ContainerOf is Container of any user.
func (w *World) ContainerOf(user sign.KeyPair, n *Node, change func(*workload.Container)) *workload.Reservation {
	w.Helper()
	data := workload.Container{
		FList: w.Server(), Env: map[string]string{}, SecretEnv: map[string]string{}, Mounts: []workload.Mount{},
		Network:  workload.ContainerNetwork{NetworkID: "net1", IPs: []net.IP{net.IPv4(10, 1, 2, 10).To4()}},
		Capacity: workload.ContainerCapacity{CPU: 1, Memory: 128},
	}
	if change != nil {
		change(&data)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		w.Fatal(err)
	}
	r := &workload.Reservation{NodeID: n.ID, Type: workload.TypeContainer, Created: time.Now(), Duration: time.Hour, Data: raw}
	if err := r.Sign(user.Private()); err != nil {
		w.Fatal(err)
	}
	return r
}

// Mount says that a volume of that reservation is mounted there.
func Mount(volume *workload.Reservation, at string) workload.Mount {
	return workload.Mount{VolumeID: volume.ID, Mountpoint: at}
}

// MountByHash is Mount of the volume that its user signed, whatever has its ID.
func (w *World) MountByHash(volume *workload.Reservation, at string) workload.Mount {
	w.Helper()
	m := Mount(volume, at)
	m.VolumeHash = w.HashOf(volume)
	return m
}

// HashOf is a reservation's hash, as data holds it.
func (w *World) HashOf(r *workload.Reservation) string {
	w.Helper()
	h, err := r.Hash()
	if err != nil {
		w.Fatal(err)
	}
	return h.Hex()
}

// SealEnv seals a variable of a user's container to the node.
func (w *World) SealEnv(n *Node, user sign.KeyPair, name, value string) string {
	w.Helper()
	sealed, err := workload.SealSecret(n.ID, user.ID(), workload.TypeContainer, "secret_env."+name, []byte(value))
	if err != nil {
		w.Fatal(err)
	}
	return sealed
}

// ContainerResult reads the result of a container that runs.
func (w *World) ContainerResult(r *workload.Reservation) workload.ContainerResult {
	w.Helper()
	var out workload.ContainerResult
	if err := json.Unmarshal(w.Result(r, workload.StateOK).Data, &out); err != nil {
		w.Fatal(err)
	}
	return out
}

// ContainerStatus is what the node says of r's container, and whether it has it.
func (n *Node) ContainerStatus(r *workload.Reservation) (node.ContainerInfo, bool) {
	n.w.Helper()
	s, err := n.TryStatus()
	if err != nil {
		return node.ContainerInfo{}, false
	}
	for _, c := range s.Containers {
		if c.ID == r.ID {
			return c, true
		}
	}
	return node.ContainerInfo{}, false
}

// WaitRunning waits until r's container runs and returns what the node says of it.
func (n *Node) WaitRunning(r *workload.Reservation) node.ContainerInfo {
	n.w.Helper()
	var last node.ContainerInfo
	n.w.Until(90*time.Second, "container "+r.ID+" runs", func() bool {
		c, ok := n.ContainerStatus(r)
		last = c
		return ok && c.State == node.ContainerRunning && c.PID != 0
	})
	return last
}

// Get asks an HTTP server from the network namespace of that file; an answer
// other than 200 is an error.
func (w *World) Get(namespace, url string, limit time.Duration) (string, error) {
	return w.Do(namespace, http.MethodGet, url, "", limit)
}

// Do is a request of any method, on a connection of its own.
func (w *World) Do(namespace, method, url, body string, limit time.Duration) (string, error) {
	return Request(w.HTTP(namespace), method, url, body, limit)
}

// Request makes a request, and returns what is answered. Any status but 200 is a StatusError.
func Request(client *http.Client, method, url, body string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = &StatusError{Code: res.StatusCode, Body: string(raw)}
	}
	return string(raw), err
}

// HTTP is a client in the network namespace of that file. It follows no
// redirects, and uses each connection once.
func (w *World) HTTP(namespace string) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DialContext: w.DialFrom(namespace), DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// LogLines are all lines that r's container has said and the node has kept.
func (n *Node) LogLines(r *workload.Reservation) []node.LogLine {
	n.w.Helper()
	lines, err := logs.Last(filepath.Join(n.StateDir(), "logs"), r.ID, 1<<20)
	if err != nil && node.KindOf(err) != node.NotExist {
		n.w.Fatal(err)
	}
	return lines
}

// StatusError is an answer of HTTP that isn't 200.
type StatusError struct {
	Code int
	Body string
}

// Error implements error.
func (e *StatusError) Error() string { return http.StatusText(e.Code) + ": " + e.Body }

// MustGet is Get that must work, within a minute of trying.
func (m *Member) MustGet(url string) string {
	m.w.Helper()
	var last string
	m.w.Until(time.Minute, "an answer of "+url, func() (ok bool) {
		got, err := m.w.Get(m.Path(), url, 10*time.Second)
		last = got
		return err == nil
	})
	return last
}

// MustDo is a request that must work.
func (m *Member) MustDo(method, url, body string) string {
	m.w.Helper()
	got, err := m.w.Do(m.Path(), method, url, body, 30*time.Second)
	if err != nil {
		m.w.Fatalf("%s %s: %v", method, url, err)
	}
	return got
}
