package dns

import (
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"github.com/rs/zerolog"
)

// mostUpstreams is how many name servers of a file are used, as in resolv.conf(5).
const mostUpstreams = 3

// upstreams are the name servers to ask. Those of a file are read again when
// the file has changed.
type upstreams struct {
	fixed []netip.AddrPort
	path  string
	log   zerolog.Logger

	mu   sync.Mutex
	seen fileState
	read []netip.AddrPort
}

// fileState distinguishes versions of a file.
type fileState struct {
	inode uint64
	size  int64
	mtime time.Time
}

func newUpstreams(c Config) *upstreams {
	return &upstreams{fixed: c.Upstreams, path: c.ResolvConf, log: c.Log}
}

// list returns the name servers to ask now; none when the file has none.
func (u *upstreams) list() []netip.AddrPort {
	if len(u.fixed) > 0 {
		return u.fixed
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	state := stateOf(u.path)
	if state == u.seen {
		return u.read
	}
	u.seen, u.read = state, readServers(u.path)
	u.log.Info().Str("type", "network").Str("step", "dns").Str("file", u.path).Int("servers", len(u.read)).Msg("name servers read")
	return u.read
}

// stateOf is the file's state; the zero fileState when stat fails.
func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}
	}
	out := fileState{size: info.Size(), mtime: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		out.inode = st.Ino
	}
	return out
}

// readServers returns those of the file's name servers that are addresses.
func readServers(path string) []netip.AddrPort {
	conf, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return nil
	}
	var out []netip.AddrPort
	for _, text := range conf.Servers {
		ip, err := netip.ParseAddr(text)
		if err == nil && len(out) < mostUpstreams {
			out = append(out, netip.AddrPortFrom(ip, 53))
		}
	}
	return out
}
