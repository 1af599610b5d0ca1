package api

import (
	"context"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/explorer/store"
	"github.com/croft-edge/croft/explorer/tunnel"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// onlineFor is how long after its last word a node counts as online.
const onlineFor = 5 * time.Minute

// Policy is what the operator allows.
type Policy struct {
	// AcceptSignatureV1 accepts reservations that are signed as in the seed's
	// time, and their unsigned deletion.
	AcceptSignatureV1 bool
	// AcceptUnsignedNodeWrites accepts registrations and results of nodes of
	// the seed's time.
	AcceptUnsignedNodeWrites bool
	// MaxDuration bounds reservations, and renewals counted from now.
	MaxDuration time.Duration
	// MaxWait bounds the wait of a long poll.
	MaxWait time.Duration
	// MaxPolls bounds the long polls that wait at a time.
	MaxPolls int
	// MaxTunnels bounds the nodes that keep a tunnel open; 0 carries none.
	MaxTunnels int
	// KeyRate and AddressRate are in requests a second, KeyBurst and
	// AddressBurst in requests; a rate of 0 is no limit.
	KeyRate      float64
	KeyBurst     int
	AddressRate  float64
	AddressBurst int
	// ResultRate and ResultBurst are of results that one node has signed: after a
	// restart it sends one for each of its workloads.
	ResultRate  float64
	ResultBurst int
}

// DefaultPolicy is what is in force where the operator says nothing.
func DefaultPolicy() Policy {
	return Policy{
		MaxDuration: 365 * 24 * time.Hour, MaxWait: time.Minute, MaxPolls: 50000, MaxTunnels: 10000,
		KeyRate: 50, KeyBurst: 1000, AddressRate: 500, AddressBurst: 5000, ResultRate: 200, ResultBurst: 10000,
	}
}

// Validate checks the policy.
func (p Policy) Validate() error {
	switch {
	case p.MaxDuration <= 0 || p.MaxDuration > 100*365*24*time.Hour:
		return node.Errorf(node.Invalid, "cannot use max-duration %s: it must be more than 0 and at most 100 years", p.MaxDuration)
	case p.MaxWait <= 0 || p.MaxWait > time.Hour:
		return node.Errorf(node.Invalid, "cannot use max-wait %s: it must be more than 0 and at most 1h", p.MaxWait)
	case p.MaxPolls < 1:
		return node.Errorf(node.Invalid, "cannot use max-polls %d: it must be at least 1", p.MaxPolls)
	case p.MaxTunnels < 0:
		return node.Errorf(node.Invalid, "cannot use max-tunnels %d: it must be 0 (none) or more", p.MaxTunnels)
	case p.KeyRate < 0 || p.AddressRate < 0 || p.ResultRate < 0:
		return node.Errorf(node.Invalid, "cannot use a negative rate: it must be 0 (no limit) or more")
	case (p.KeyRate > 0 && p.KeyBurst < 1) || (p.AddressRate > 0 && p.AddressBurst < 1) || (p.ResultRate > 0 && p.ResultBurst < 1):
		return node.Errorf(node.Invalid, "cannot use a burst below 1 with a rate")
	}
	return nil
}

// Config is what a server needs.
type Config struct {
	Store *store.Store
	// Waiters is what Store's Changed tells.
	Waiters *Waiters
	Policy  Policy
	Metrics *Metrics
	// Tunnels are those of nodes without an address of their own; nil: none are carried.
	Tunnels *tunnel.Hub
	Log     zerolog.Logger
	// Version is what /info says.
	Version string
	// Now is the clock.
	Now func() time.Time
	// Validate checks a reservation's data; its errors are shown to who pushes.
	Validate func(*workload.Reservation) error
}

// Server answers the explorer's requests.
type Server struct {
	config    Config
	store     *store.Store
	waiters   *Waiters
	policy    Policy
	metrics   *Metrics
	log       zerolog.Logger
	now       func() time.Time
	openapi   []byte
	keys      *limits
	addresses *limits
	results   *limits
	connects  *once
	mux       *http.ServeMux
	// page is what one page of a poll holds at most.
	page store.Bound
	// bodies is what bodies hold, answers what answers hold; slowest and longest are how long a part and
	// the whole of one may take.
	bodies, answers *limit.Shares
	// polls are those that wait; homes is where nodes sign.
	polls            *limit.Shares
	homes            homes
	newBytes         *limits
	newNodes         *limits
	newFarms         *limits
	slowest, longest time.Duration
}

// New makes a server.
func New(c Config) (*Server, error) {
	if err := c.Policy.Validate(); err != nil {
		return nil, err
	}
	doc, err := openAPI()
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: c, store: c.Store, waiters: c.Waiters, policy: c.Policy, metrics: c.Metrics, log: c.Log, now: c.Now, openapi: doc,
		keys: newLimits(c.Policy.KeyRate, c.Policy.KeyBurst), addresses: newLimits(c.Policy.AddressRate, c.Policy.AddressBurst),
		results:  newLimits(c.Policy.ResultRate, c.Policy.ResultBurst),
		connects: newOnce(), mux: http.NewServeMux(), page: store.Bound{Rows: pageRows, Bytes: pageBytes},
		newBytes: c.Policy.perDay(newBytes, MaxBody), newNodes: c.Policy.perDay(newNodes, newNodes.Each), newFarms: c.Policy.perDay(newFarms, newFarms.Each),
		polls: c.Policy.pollLimit().Shares(), bodies: c.Policy.perSource(bodyBytes).Shares(), answers: c.Policy.perSource(answerBytes).Shares(), slowest: partTimeout, longest: longTimeout,
	}
	s.metrics.watch(s.waiters)
	if c.Tunnels != nil {
		s.metrics.watchTunnels(c.Tunnels)
	}
	for _, route := range s.routes() {
		s.mux.Handle(route.pattern, s.handle(route))
	}
	return s, nil
}

// handler answers a request or returns why it can't.
type handler func(w http.ResponseWriter, r *http.Request) error

type route struct {
	pattern string
	handler handler
}

// routes are all paths. They and openapi.yaml name the same ones.
func (s *Server) routes() []route {
	return []route{
		{"GET /healthz", s.healthz},
		{"GET /readyz", s.readyz},
		{"GET /info", s.info},
		{"GET /openapi.json", s.getOpenAPI},
		{"GET /metrics", s.getMetrics},

		{"POST /nodes", s.postNode},
		{"GET /nodes", s.getNodes},
		{"GET /nodes/{id}", s.getNode},
		{"POST /nodes/{id}/interfaces", s.postInterfaces},
		{"POST /nodes/{id}/ports", s.postPorts},
		{"POST /nodes/{id}/configure_public", s.postPublicConfig},
		{"POST /nodes/{id}/capacity", s.postCapacity},
		{"POST /nodes/{id}/uptime", s.postUptime},
		{"GET /nodes/{id}/tunnel", s.getTunnel},
		{"GET /nodes/{id}/connect", s.getConnect},

		{"POST /farms", s.postFarm},
		{"GET /farms", s.getFarms},
		{"GET /farms/{id}", s.getFarm},
		{"PUT /farms/{id}/nodes/{node}", s.putFarmNode},

		{"GET /reservations", s.getReservations},
		{"POST /reservations/{node}", s.postReservation},
		{"GET /reservations/{node}/poll", s.poll},
		{"GET /reservations/{id}", s.getReservation},
		{"PUT /reservations/{id}", s.putResult},
		{"DELETE /reservations/{id}", s.deleteReservation},
		{"PUT /reservations/{id}/deleted", s.putDeleted},
		{"PUT /reservations/{id}/renewal", s.putRenewal},
	}
}

// ready is how long the database may take to answer /readyz.
const ready = 2 * time.Second

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), ready)
	defer cancel()
	if s.waiters.closed() {
		return node.Errorf(node.Transient, "cannot serve: the explorer is stopping")
	}
	if err := s.store.Ping(ctx); err != nil {
		return node.WithKind(node.Transient, err)
	}
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) getOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	return writeBody(w, http.StatusOK, "application/json", s.openapi)
}
