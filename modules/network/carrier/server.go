package carrier

import (
	"context"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/node"
)

// server does what requests ask for.
type server struct {
	version string
	started time.Time
	devices *devices
	zones   Zones
	garbage uint64
	stop    func()
	log     zerolog.Logger
}

// answer answers a line.
func (s *server) answer(ctx context.Context, line []byte) any {
	r, err := carrier.Guard(s.log, func() (response, error) {
		r, err := parseRequest(line)
		if err != nil {
			return response{}, err
		}
		return s.do(ctx, r)
	})
	r.Version, r.Error = protocol, carrier.FailureOf(err)
	return r
}

func (s *server) do(ctx context.Context, r request) (response, error) {
	switch r.Op {
	case opInfo:
		return response{Info: s.info()}, nil
	case opStop:
		s.stop()
		return response{Info: s.info()}, nil
	case opSetDevice:
		return response{}, s.devices.set(r.ID, *r.Device)
	case opRemoveDevice:
		return response{}, s.devices.remove(r.ID)
	case opDevices:
		return response{Devices: s.devices.list(r.ID)}, nil
	case opSetZone:
		return response{}, s.zones.Set(ctx, *r.Zone)
	case opRemoveZone:
		return response{}, s.zones.Remove(ctx, r.ID)
	case opZones:
		return response{Zones: s.zones.List()}, nil
	}
	return response{}, node.Errorf(node.Invalid, "cannot do %q: there is no such operation", r.Op)
}

func (s *server) info() *Info {
	return &Info{
		PID: os.Getpid(), Protocol: protocol, Version: s.version, Started: s.started, Memory: carrier.RSSAnon(),
		Devices: s.devices.count(), Zones: len(s.zones.List()),
	}
}
