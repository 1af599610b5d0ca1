package api

import (
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/explorer/longpoll"
	"github.com/croft-edge/croft/explorer/store"
	"github.com/croft-edge/croft/explorer/tunnel"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/workload"
)

// Config is what a server needs.
type Config struct {
	Store *store.Store
	// Waiters must be told of each change: pass its Changed to Store.
	Waiters *longpoll.Waiters
	Policy  Policy
	Metrics *Metrics
	// Tunnels carries connections to nodes without an address of their own; nil carries none.
	Tunnels *tunnel.Hub
	Log     zerolog.Logger
	// Version is the version in /info.
	Version string
	// Now is the clock.
	Now func() time.Time
	// Validate checks a reservation's data; its errors are shown to the sender of the reservation.
	Validate func(*workload.Reservation) error
}

// Server routes requests to the resource that answers them, and limits, counts and logs them all.
type Server struct {
	operations   *operations
	nodes        *nodes
	farms        *farms
	reservations *reservations
	results      *results
	polls        *polls
	tunnels      *tunnels

	mux     *http.ServeMux
	rates   *rates
	bodies  *limit.Shares
	metrics *Metrics
	log     zerolog.Logger
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
		mux: http.NewServeMux(), rates: newRates(c.Policy, c.Metrics.refused),
		bodies: c.Policy.perSource(bodyBytes).Shares(), metrics: c.Metrics, log: c.Log,
	}
	s.operations = &operations{
		described: c.info(), now: c.Now, openapi: doc, metrics: c.Metrics.page(),
		ping: c.Store.Ping, stopping: c.Waiters.Closed,
	}
	s.resources(c)
	c.Metrics.watch(c.Waiters)
	if c.Tunnels != nil {
		c.Metrics.watchTunnels(c.Tunnels)
	}
	for _, route := range s.routes() {
		s.mux.Handle(route.pattern, s.handle(route))
	}
	return s, nil
}

// resources makes the resources with their dependencies.
func (s *Server) resources(c Config) {
	signed := &signatures{now: c.Now, counted: s.rates.key, acceptUnsigned: c.Policy.AcceptUnsignedNodeWrites}
	send := &sender{answers: c.Policy.perSource(answerBytes).Shares(), slowest: partTimeout, longest: longTimeout, log: c.Log}
	homes := longpoll.NewHomes()
	s.nodes = &nodes{
		store: c.Store.Nodes, farms: c.Store.Farms, signatures: signed, rates: s.rates, homes: homes, send: send, now: c.Now,
	}
	s.farms = &farms{store: c.Store.Farms, nodes: c.Store.Nodes, signatures: signed, rates: s.rates, now: c.Now}
	s.reservations = &reservations{
		store: c.Store.Reservations, rates: s.rates, send: send,
		rules: &rules{now: c.Now, maxDuration: c.Policy.MaxDuration, acceptV1: c.Policy.AcceptSignatureV1, validate: c.Validate},
	}
	s.results = &results{
		store: c.Store.Results, reservations: c.Store.Reservations, rates: s.rates, acceptUnsigned: c.Policy.AcceptUnsignedNodeWrites,
	}
	s.polls = &polls{
		nodes: c.Store.Nodes, reservations: c.Store.Reservations, epoch: c.Store.Epoch(),
		room: longpoll.NewRoom(c.Waiters, homes, longpoll.Limit(c.Policy.MaxPolls, c.Policy.AddressRate != 0)),
		send: send, page: store.Bound{Rows: pageRows, Bytes: pageBytes}, maxWait: c.Policy.MaxWait, now: c.Now,
	}
	s.tunnels = &tunnels{
		hub: c.Tunnels, nodes: c.Store.Nodes, reservations: c.Store.Reservations, signatures: signed, connects: newOnce(), now: c.Now,
	}
}

// info is the answer to /info, without the time.
func (c Config) info() wire.Info {
	return wire.Info{
		Version: c.Version, Epoch: c.Store.Epoch(),
		AcceptSignatureV1: c.Policy.AcceptSignatureV1, AcceptUnsignedNodeWrites: c.Policy.AcceptUnsignedNodeWrites,
		MaxDuration: c.Policy.MaxDuration, MaxWait: c.Policy.MaxWait, MaxBody: MaxBody,
	}
}

// handler answers a request or returns the reason why it can't.
type handler func(w http.ResponseWriter, r *http.Request) error

type route struct {
	pattern string
	handler handler
}

// routes are all paths. They and openapi.yaml name the same ones.
func (s *Server) routes() []route {
	return []route{
		{"GET /healthz", s.operations.healthz},
		{"GET /readyz", s.operations.readyz},
		{"GET /info", s.operations.info},
		{"GET /openapi.json", s.operations.getOpenAPI},
		{"GET /metrics", s.operations.getMetrics},

		{"POST /nodes", s.nodes.post},
		{"GET /nodes", s.nodes.list},
		{"GET /nodes/{id}", s.nodes.get},
		{"POST /nodes/{id}/interfaces", s.nodes.postInterfaces},
		{"POST /nodes/{id}/ports", s.nodes.postPorts},
		{"POST /nodes/{id}/configure_public", s.nodes.postPublicConfig},
		{"POST /nodes/{id}/capacity", s.nodes.postCapacity},
		{"POST /nodes/{id}/uptime", s.nodes.postUptime},
		{"GET /nodes/{id}/tunnel", s.tunnels.open},
		{"GET /nodes/{id}/connect", s.tunnels.connect},

		{"POST /farms", s.farms.post},
		{"GET /farms", s.farms.list},
		{"GET /farms/{id}", s.farms.get},
		{"PUT /farms/{id}/nodes/{node}", s.farms.putNode},

		{"GET /reservations", s.reservations.list},
		{"POST /reservations/{node}", s.reservations.post},
		{"GET /reservations/{node}/poll", s.polls.get},
		{"GET /reservations/{id}", s.reservations.get},
		{"PUT /reservations/{id}", s.results.put},
		{"DELETE /reservations/{id}", s.reservations.delete},
		{"PUT /reservations/{id}/deleted", s.results.putDeleted},
		{"PUT /reservations/{id}/renewal", s.reservations.putRenewal},
	}
}
