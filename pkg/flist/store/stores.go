package store

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/flist"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// Speed is the least that a store must send of a block, beside the time in which it may say nothing: else another one is
// asked.
var Speed = limit.Limit{Name: "flist-speed", Per: "minute", Each: 256 << 10, Unit: limit.Bytes}

// errMissing is the error of a store without the block.
var errMissing = node.Errorf(node.Invalid, "it has no such block")

// Stores are those of one flist. It is for one goroutine.
type Stores struct {
	silence time.Duration
	client  *http.Client
	routes  []*route
}

// route is a route of the flist, with its store.
type route struct {
	flist.Route
	// name is the URL without its password.
	name  string
	store blocks
	// failed is whether the last block couldn't be had there.
	failed bool
}

// blocks is a store.
type blocks interface {
	// get returns the bytes of a block, at most so many. errMissing when it has none.
	get(ctx context.Context, id flist.Hash, most int) ([]byte, error)
	close()
}

// Open prepares the stores of a flist's routes; none is asked yet. node.Refused when a route names none that the node may
// use, node.Invalid when c isn't valid.
func Open(c fetch.Config, routes []flist.Route) (*Stores, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	s := &Stores{silence: c.Patience(), client: client}
	stores := map[string]blocks{}
	for _, r := range routes {
		u, err := url.Parse(r.URL)
		if err != nil {
			// The error would show the password.
			return nil, flist.Refused("the URL of one of its routes can't be read")
		}
		name := clip.Text(u.Redacted(), mostShown)
		if stores[r.URL] == nil {
			store, why := s.open(c, u)
			if why != "" {
				return nil, flist.Refused("its route %q: %s", name, why)
			}
			stores[r.URL] = store
		}
		s.routes = append(s.routes, &route{Route: r, name: name, store: stores[r.URL]})
	}
	return s, nil
}

// mostShown is how much of an URL errors show, mostSaid how much of all stores' failures, in bytes.
const (
	mostShown = 200
	mostSaid  = 2 << 10
)

// open makes the store of an URL, or says what is wrong with it.
func (s *Stores) open(c fetch.Config, u *url.URL) (store blocks, why string) {
	switch {
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "zdb":
		return nil, "allowed are http://, https:// and zdb://: other stores would be the node's own, or need its keys"
	case u.Hostname() == "":
		return nil, "it names no host"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, "it must end in a path"
	}
	if u.Scheme == "zdb" {
		return openZDB(c, u)
	}
	if u.User != nil {
		return nil, "it names a user, which stores over HTTP can't have"
	}
	return &web{client: s.client, base: strings.TrimSuffix(u.String(), "/")}, ""
}

// Has reports whether any store should have a block.
func (s *Stores) Has(id flist.Hash) bool {
	return slices.ContainsFunc(s.routes, func(r *route) bool { return r.Has(id) })
}

// Block returns the content of a block, of so many bytes, from the first store that has it. Stores are asked one after the
// other in a random order, those that failed last. The error has a kind: Transient when any store may have it later.
func (s *Stores) Block(ctx context.Context, b flist.Block, plain int) ([]byte, error) {
	var said []string
	kind := node.Refused
	for _, r := range s.order(b.ID) {
		out, err := s.from(ctx, r, b, plain)
		if r.failed = err != nil; err == nil {
			return out, nil
		}
		if ctx.Err() != nil {
			return nil, node.Errorf(node.Transient, "cannot fetch block %s: %w", b.ID, context.Cause(ctx))
		}
		if node.KindOf(err) == node.Transient {
			kind = node.Transient
		}
		said = append(said, r.name+": "+err.Error())
	}
	if len(said) == 0 {
		return nil, flist.Refused("none of its routes has block %s", b.ID)
	}
	slices.Sort(said) // the same failure has the same words
	return nil, node.Errorf(kind, "cannot fetch block %s: %s", b.ID, clip.Text(strings.Join(said, "; "), mostSaid))
}

// order are the routes of a block in the order in which they are tried.
func (s *Stores) order(id flist.Hash) []*route {
	var out []*route
	taken := map[blocks]bool{}
	for _, i := range rand.Perm(len(s.routes)) {
		if r := s.routes[i]; r.Has(id) && !taken[r.store] {
			taken[r.store] = true
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *route) int { return cmp.Compare(number(a.failed), number(b.failed)) })
	return out
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// from fetches a block from one store, within its time.
func (s *Stores) from(ctx context.Context, r *route, b flist.Block, plain int) ([]byte, error) {
	most := flist.MostStored(plain)
	slow := node.Errorf(node.Transient, "it sends less than %s", Speed)
	within, cancel := context.WithTimeoutCause(ctx, s.silence+time.Duration(most)*time.Minute/time.Duration(Speed.Each), slow)
	defer cancel()
	stored, err := r.store.get(within, b.ID, most)
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(context.Cause(within), slow):
		Speed.Reached()
		return nil, slow
	case err != nil:
		return nil, err
	}
	out, err := b.Decode(stored, plain)
	if err != nil {
		// What comes next on the connection needn't belong to the next block.
		r.store.close()
	}
	return out, node.WithKind(node.Refused, err)
}

// Close closes all connections.
func (s *Stores) Close() {
	for _, r := range s.routes {
		r.store.close()
	}
	s.client.CloseIdleConnections()
}
