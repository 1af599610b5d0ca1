package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft-init/internal/console"
)

// Limits over all clients.
const (
	maxSessions    = 16
	maxConnections = 64
	maxHeader      = 8 << 10
	maxMessage     = 64 << 10
	httpPort       = 80
)

// ErrNoShell is Open's error when there is no shell to start.
var ErrNoShell = errors.New("there is no shell in this container's image")

// Terminal is the terminal of a session.
type Terminal interface {
	Read(p []byte) (int, error)
	Write(p []byte) error
	Resize(s console.Size) error
	// Done is closed when the shell has ended, Code is its exit code, Drain makes Read end soon after.
	Done() <-chan struct{}
	Code() int
	Drain() error
	// Close ends the terminal with all of its processes.
	Close()
}

// Config configures a Server.
type Config struct {
	// Listen are its addresses; Names are host names in addition to the machine's own.
	Listen []netip.AddrPort
	Names  []string
	// Open starts a shell.
	Open func(console.Size) (Terminal, error)
	// Log receives its messages.
	Log io.Writer
	// Patience is how long a client may leave output unread or a ping unanswered, Ping the interval of
	// pings, Again the interval of attempts to open a failed listener; 0 is the default.
	Patience, Ping, Again time.Duration
}

// Server serves terminals.
type Server struct {
	Config
	guard    guard
	sessions chan struct{}
	mu       sync.Mutex
	ready    map[netip.AddrPort]net.Listener
}

// New makes a server. It doesn't listen yet.
func New(c Config) *Server {
	const usual = 30 * time.Second
	c.Patience, c.Ping, c.Again = or(c.Patience, usual), or(c.Ping, usual), or(c.Again, 2*time.Second)
	names := c.Names
	if name, err := os.Hostname(); err == nil {
		names = append([]string{name}, names...)
	}
	return &Server{
		Config: c, guard: newGuard(c.Listen, names), sessions: make(chan struct{}, maxSessions), ready: map[netip.AddrPort]net.Listener{},
	}
}

func or(d, usual time.Duration) time.Duration {
	if d == 0 {
		return usual
	}
	return d
}

// handler answers requests; when ctx is done, its sessions end.
func (s *Server) handler(ctx context.Context) http.Handler {
	pages := newPages()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.guard.allows(r.Host, localAddress(r)) {
			refuse(w, http.StatusMisdirectedRequest, "cannot answer for this name: ask for the container's address or its name")
			return
		}
		protect(w, r.Host)
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "cannot do that: only GET and HEAD are answered")
			return
		}
		if r.URL.Path == "/ws" {
			s.socket(ctx, w, r)
			return
		}
		pages.serve(w, r)
	})
}

// protect sets the headers that restrict a browser to the page itself.
func protect(w http.ResponseWriter, host string) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws://"+host+
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, why)
}

// localAddress is the local address that a request arrived at.
func localAddress(r *http.Request) netip.AddrPort {
	address, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return address.AddrPort()
}

// cutPort splits NAME:PORT.
func cutPort(host string) (name string, port uint16, ok bool) {
	name, text, found := strings.Cut(host, ":")
	if !found {
		return name, httpPort, true
	}
	number, err := strconv.ParseUint(text, 10, 16)
	return name, uint16(number), err == nil
}
