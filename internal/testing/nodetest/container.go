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
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// Image writes an image into the world's folder of images and returns its path, which a reservation
// names.
func (i *Images) Image(name string, b *imagetest.Builder) string {
	i.Helper()
	path := filepath.Join(i.Folder, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if _, err := b.Layout(path); err != nil {
		i.Fatal(err)
	}
	return path
}

// Server is the path of the image of imagetest's server.
func (i *Images) Server() string {
	i.Helper()
	return i.Image("server", imagetest.Server())
}

// Container is a reservation for a container of the world's user: by default the server, on the network
// net1; change may modify it.
func (r *Reservations) Container(n *Node, change func(*workload.Container)) *workload.Reservation {
	r.Helper()
	return r.ContainerOf(r.User, n, change)
}

// ContainerOf is Container of any user.
func (r *Reservations) ContainerOf(user sign.KeyPair, n *Node, change func(*workload.Container)) *workload.Reservation {
	r.Helper()
	data := workload.Container{
		FList: r.images.Server(), Env: map[string]string{}, SecretEnv: map[string]string{}, Mounts: []workload.Mount{},
		Network:  workload.ContainerNetwork{NetworkID: "net1", IPs: []net.IP{net.IPv4(10, 1, 2, 10).To4()}},
		Capacity: workload.ContainerCapacity{CPU: 1, Memory: 128},
	}
	if change != nil {
		change(&data)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		r.Fatal(err)
	}
	signed := &workload.Reservation{NodeID: n.ID, Type: workload.TypeContainer, Created: time.Now(), Duration: time.Hour, Data: raw}
	if err := signed.Sign(user.Private()); err != nil {
		r.Fatal(err)
	}
	return signed
}

// Mount mounts the volume of that reservation at a path.
func Mount(volume *workload.Reservation, at string) workload.Mount {
	return workload.Mount{VolumeID: volume.ID, Mountpoint: at}
}

// MountByHash is Mount of exactly the volume that its user signed, whichever reservation has its ID.
func (r *Reservations) MountByHash(volume *workload.Reservation, at string) workload.Mount {
	r.Helper()
	m := Mount(volume, at)
	m.VolumeHash = r.HashOf(volume)
	return m
}

// HashOf is a reservation's hash, as written in data.
func (r *Reservations) HashOf(signed *workload.Reservation) string {
	r.Helper()
	h, err := signed.Hash()
	if err != nil {
		r.Fatal(err)
	}
	return h.Hex()
}

// SealEnv seals a variable of a user's container to the node.
func (r *Reservations) SealEnv(n *Node, user sign.KeyPair, name, value string) string {
	r.Helper()
	sealed, err := workload.SealSecret(n.ID, user.ID(), workload.TypeContainer, "secret_env."+name, []byte(value))
	if err != nil {
		r.Fatal(err)
	}
	return sealed
}

// ContainerResult waits for and decodes the result of a running container.
func (e *ExplorerServer) ContainerResult(r *workload.Reservation) workload.ContainerResult {
	e.Helper()
	var out workload.ContainerResult
	if err := json.Unmarshal(e.Result(r, workload.StateOK).Data, &out); err != nil {
		e.Fatal(err)
	}
	return out
}

// ContainerStatus is r's container in the node's status, and whether it is there.
func (c *Containers) ContainerStatus(r *workload.Reservation) (node.ContainerInfo, bool) {
	c.tb.Helper()
	s, err := c.status()
	if err != nil {
		return node.ContainerInfo{}, false
	}
	for _, it := range s.Containers {
		if it.ID == r.ID {
			return it, true
		}
	}
	return node.ContainerInfo{}, false
}

// WaitRunning waits until r's container runs and returns its status.
func (c *Containers) WaitRunning(r *workload.Reservation) node.ContainerInfo {
	c.tb.Helper()
	var last node.ContainerInfo
	c.until(Soon, "container "+r.ID+" runs", func() bool {
		it, ok := c.ContainerStatus(r)
		last = it
		return ok && it.State == node.ContainerRunning && it.PID != 0
	})
	return last
}

// Get sends a GET request from the network namespace of that file; an answer other than 200 is an
// error.
func (t *Traffic) Get(namespace, url string, limit time.Duration) (string, error) {
	return t.Do(namespace, http.MethodGet, url, "", limit)
}

// Do sends a request of any method, on a connection of its own.
func (t *Traffic) Do(namespace, method, url, body string, limit time.Duration) (string, error) {
	return Request(t.HTTP(namespace), method, url, body, limit)
}

// Request sends a request and returns the body of the answer. Any status but 200 is a StatusError.
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

// HTTP is a client in the network namespace of that file. It follows no redirects, and uses each
// connection once.
func (t *Traffic) HTTP(namespace string) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DialContext: t.DialFrom(namespace), DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// LogLines are all lines of output of r's container that the node has kept.
func (c *Containers) LogLines(r *workload.Reservation) []node.LogLine {
	c.tb.Helper()
	lines, err := logs.Last(filepath.Join(c.stateDir, "logs"), r.ID, 1<<20)
	if err != nil && node.KindOf(err) != node.NotExist {
		c.tb.Fatal(err)
	}
	return lines
}

// StatusError is an HTTP answer other than 200.
type StatusError struct {
	Code int
	Body string
}

// Error implements error.
func (e *StatusError) Error() string { return http.StatusText(e.Code) + ": " + e.Body }

// MustGet repeats Get for up to a minute until it succeeds.
func (m *Member) MustGet(url string) string {
	m.w.Helper()
	var last string
	m.w.Until(Soon, "an answer of "+url, func() (ok bool) {
		got, err := m.w.Get(m.Path(), url, 10*time.Second)
		last = got
		return err == nil
	})
	return last
}

// MustDo is Do that fails the test on an error.
func (m *Member) MustDo(method, url, body string) string {
	m.w.Helper()
	got, err := m.w.Do(m.Path(), method, url, body, 30*time.Second)
	if err != nil {
		m.w.Fatalf("%s %s: %v", method, url, err)
	}
	return got
}
