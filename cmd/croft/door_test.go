package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	client "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/workload"
)

// fakeDoor answers as a node's door does, for whoever signs: who may do what is
// tested where the door is.
type fakeDoor struct {
	node     *fakeNode
	listener net.Listener
	server   *http.Server
	verifier nodeapi.Verifier
	tunnel   *nodeapi.Tunnel
	all      sync.WaitGroup
}

// openDoor makes the node's door; hidden ones are reached through the explorer alone.
func (n *fakeNode) openDoor(ctx context.Context, hidden bool) (*fakeDoor, error) {
	config, err := nodeapi.ServerConfig(n.key.ID(), func(_ context.Context, m []byte) ([]byte, error) { return n.key.Sign(m), nil })
	if err != nil {
		return nil, err
	}
	d := &fakeDoor{node: n, verifier: nodeapi.Verifier{Node: n.key.ID(), Now: func() (time.Time, bool) { return n.world.now(), true }}}
	if d.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/workloads/{id}/{what}", d.get)
	mux.HandleFunc("POST /v1/workloads/{id}/exec", d.exec)
	d.server = &http.Server{Handler: mux, ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return nodeapi.WithSession(ctx) }}
	d.all.Go(func() { _ = d.server.Serve(tls.NewListener(d.listener, config)) })
	c, err := n.world.client(n.key)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	known := client.Node{NodeID: n.key.ID(), OSVersion: "croft test"}
	if !hidden {
		known.Door = d.listener.Addr().String()
	}
	if err := c.RegisterNode(ctx, known); err != nil || !hidden {
		return d, err
	}
	conn, err := c.OpenTunnel(ctx, n.key.ID())
	if err != nil {
		return d, err
	}
	d.tunnel, err = nodeapi.NodeTunnel(conn)
	d.all.Go(d.accept)
	return d, err
}

// accept passes connections through the tunnel to the listener.
func (d *fakeDoor) accept() {
	for {
		near, err := d.tunnel.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", d.listener.Addr().String())
		if err != nil {
			_ = near.Close()
			continue
		}
		for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
			d.all.Go(func() {
				_, _ = io.Copy(way[1], way[0])
				_ = near.Close()
				_ = far.Close()
			})
		}
	}
}

// shut closes the door, where there is one.
func (n *fakeNode) shut() {
	if n.door != nil {
		n.door.close()
		n.door = nil
	}
}

func (d *fakeDoor) close() {
	_ = d.server.Close()
	if d.tunnel != nil {
		_ = d.tunnel.Close()
	}
	d.all.Wait()
}

func (d *fakeDoor) signed(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		_, err = d.verifier.Verify(r, body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
	}
	return err == nil
}

func (d *fakeDoor) get(w http.ResponseWriter, r *http.Request) {
	if !d.signed(w, r) {
		return
	}
	var lines []any
	id := r.PathValue("id")
	switch r.PathValue("what") {
	case "status":
		if why, _ := d.node.why.Load().(string); why != "" {
			_ = json.NewEncoder(w).Encode(nodeapi.Status{ID: id, Type: workload.TypeVolume, Phase: "retry", Waiting: "provision", Error: why})
			return
		}
		if d.node.steady.Load() {
			_ = json.NewEncoder(w).Encode(nodeapi.Status{ID: id, Type: workload.TypeContainer, State: workload.StateOK, Container: &nodeapi.Container{State: "running"}})
			return
		}
		_ = json.NewEncoder(w).Encode(nodeapi.Status{ID: id, Type: workload.TypeContainer, State: workload.StateOK, Container: &nodeapi.Container{
			State: "waiting", Restarts: 3, ExitCode: 9, Ended: 1, LastLog: []string{"out of \x1b[31mpaper"}}})
		return
	case "events":
		_ = json.NewEncoder(w).Encode(nodeapi.Events{Events: []nodeapi.Event{{Kind: "Warning", Reason: "Drifted", Operation: "Secondary",
			Message: "its bridge\x1b[31m is gone", Count: 2, First: time.Unix(1, 0), Last: time.Unix(2, 0)}}})
		return
	case "stats":
		use := nodeapi.Stats{ID: id, At: 1e9, CPU: 5e8, Memory: 3 << 20, PIDs: 2}
		if r.URL.Query().Get("watch") == "" {
			_ = json.NewEncoder(w).Encode(use)
			return
		}
		later := use
		later.At, later.CPU = 2e9, 75e7
		lines = []any{use, later, nodeapi.Trailer{Error: "cannot go on: the container is gone", Kind: "NotExist"}}
	case "logs":
		lines = []any{nodeapi.LogLine{At: 1e9, Stream: "stdout", Text: "hello from " + r.URL.RawQuery}, nodeapi.LogLine{At: 2e9, Stream: "stderr", Text: "and a complaint"}}
		if console, _ := d.node.console.Load().(string); console != "" {
			lines = nil
			for line := range strings.Lines(console) {
				lines = append(lines, nodeapi.LogLine{At: 1e9, Stream: "stdout", Text: strings.TrimSuffix(line, "\n") + "\r"})
			}
		}
	}
	w.Header().Set("Content-Type", nodeapi.LinesType)
	for _, l := range lines {
		_ = json.NewEncoder(w).Encode(l)
	}
}

// exec prints its request, then echoes, and ends with 42.
func (d *fakeDoor) exec(w http.ResponseWriter, r *http.Request) {
	if !d.signed(w, r) {
		return
	}
	var o nodeapi.ExecOptions
	_ = json.NewDecoder(r.Body).Decode(&o)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+nodeapi.Upgrade+"\r\n\r\n")
	_ = nodeapi.ServeExec(context.WithoutCancel(r.Context()), conn, buffered.Reader, nodeapi.Pulse{}, func(_ context.Context, s nodeapi.ExecIO) (uint32, error) {
		if _, err := fmt.Fprintf(s.Stdout, "%q %q %v %dx%d\n", o.Args, o.Env, o.Terminal, o.Size.Width, o.Size.Height); err != nil {
			return 0, err
		}
		if o.Args[0] == "resized" {
			size := <-s.Resize
			_, err := fmt.Fprintf(s.Stdout, "now %dx%d\n", size.Width, size.Height)
			return 0, err
		}
		if _, err := io.Copy(s.Stderr, s.Stdin); err != nil {
			return 0, err
		}
		return 42, nil
	})
}
