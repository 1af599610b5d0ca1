package front

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/supervise"
)

// fdControl is the descriptor of the control socket.
const fdControl = 3

// Serve runs the door's process until its agent ends. It returns the exit status.
func Serve() int {
	if err := serve(fdControl, nil); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return 0
}

// serve is Serve with the control socket's descriptor; tests set inside, called once the process is
// confined.
func serve(control int, inside func() error) error {
	time.Local = time.UTC // reading the zone would open a file
	c, err := wire.NewControl(os.NewFile(uintptr(control), "control"))
	if err != nil {
		return err
	}
	m, err := c.FromAgent()
	if err != nil || m.Kind != wire.Settings || m.File == nil {
		return errors.Errorf("cannot begin: the first message is of kind %d, %v", m.Kind, err)
	}
	var s wire.Setup
	if err := json.Unmarshal(m.Body, &s); err != nil {
		return errors.Wrap(err, "cannot read the settings")
	}
	listener, err := net.FileListener(m.File)
	m.File.Close()
	if err != nil {
		return errors.Wrap(err, "cannot use the listening socket")
	}
	if err := confined(s); err != nil {
		return err
	}
	if inside != nil {
		defer runtime.KeepAlive(c) // else its finalizer closes the socket
		return inside()
	}
	p := &process{Setup: s, agent: newAgent(c), places: placesOf(s), tunnel: newInlet()}
	return p.run(listener)
}

// process is the door's process.
type process struct {
	wire.Setup
	agent  *agent
	places places
	tunnel *inlet
}

// run serves connections until the agent has gone.
func (p *process) run(listener net.Listener) error {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return errors.Wrap(err, "cannot make the door's key")
	}
	config, err := nodeapi.ServerConfigOf(p.NodeID, key, p.agent.prove)
	if err != nil {
		return err
	}
	if err := p.agent.control.Send(wire.Message{Kind: wire.Hello, Body: public}); err != nil {
		return err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(p.forward), ReadHeaderTimeout: p.Header, IdleTimeout: p.Idle, MaxHeaderBytes: maxHeader,
		ConnContext:  func(ctx context.Context, c net.Conn) context.Context { return withVisitor(ctx, c) },
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     stdlog.New(io.Discard, "", 0),
	}
	ended := make(chan error, 3)
	for _, l := range []net.Listener{listener, p.tunnel} {
		go func() {
			ended <- supervise.Catch("door", func() error { return server.Serve(tls.NewListener(p.places.of(l), config)) })
		}()
	}
	go func() { ended <- supervise.Catch("agent", func() error { return p.agent.listen(p.tunnel) }) }()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	told := map[string]uint64{}
	for {
		select {
		case err := <-ended:
			return errors.Wrap(err, "cannot go on")
		case <-tick.C:
			if err := p.tell(told); err != nil {
				return err
			}
		}
	}
}

const (
	// maxHeader is the maximum size of a request's head, in bytes.
	maxHeader = 16 << 10
	// tellEvery is the interval of reports to the agent of limits that were reached.
	tellEvery = 250 * time.Millisecond
)

// tell reports to the agent which limits were reached since the last report.
func (p *process) tell(told map[string]uint64) error {
	now := limit.Times()
	for i, l := range p.Limits {
		if n := now[l.Name] - told[l.Name]; n > 0 {
			told[l.Name] = now[l.Name]
			m := wire.Message{Kind: wire.Reached, Number: uint32(i), Body: binary.BigEndian.AppendUint32(nil, uint32(min(n, 1<<31)))}
			if err := p.agent.control.Send(m); err != nil {
				return err
			}
		}
	}
	return nil
}
