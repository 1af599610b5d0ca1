package image

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/image/catalog"
	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// puller makes the attempts of jobs, in fair turns. It is safe for concurrent use.
type puller struct {
	sources *source.Sources
	catalog *catalog.Catalog
	turns   turns
	// same lets one pull of a user and reference run at a time.
	same   keyed
	gate   gate
	unpack *unpacker
	waste  *waste
	// turn and answer are those of Pulling.
	turn, answer time.Duration
	log          zerolog.Logger
}

func newPuller(c Config, s *Store) *puller {
	return &puller{
		sources: s.sources, catalog: s.catalog, turns: turns{limit.NewLine(Pulls), c.Clock}, waste: s.waste,
		gate: gate{limits: c.Limits, disk: s.disk, catalog: s.catalog, pulling: s.pulls.bytes},
		unpack: &unpacker{
			turns: turns{limit.NewLine(Unpacks), c.Clock}, turn: c.Unpacking.Turn, command: c.Unpacking.Command, confine: c.Unpacking.Confine,
			disk: s.disk, waste: s.waste,
		},
		turn: c.Pulling.Turn, answer: c.Pulling.Answer, log: c.Log,
	}
}

// pull pulls a job's image. A final failure leaves nothing behind; after another
// failure the next attempt continues with the fetched data.
func (p *puller) pull(ctx context.Context, j *job) error {
	err := p.attempts(ctx, j)
	log := p.log.With().Str("id", j.spec.Label).Str("reference", j.ref.Text).Logger()
	if err == nil {
		log.Info().Str("step", "pull").Str("digest", j.shown().Digest).Msg("pulled an image")
		return nil
	}
	p.waste.forget(j.spec.Label)
	p.waste.charge(ctx, j, err)
	if ctx.Err() != nil {
		// The call that ended it decides about the fetched data: Close keeps all, Release nothing.
		return node.Errorf(node.Transient, "cannot pull %s: it was broken off", j.ref.Text)
	}
	if node.KindOf(err).Final() {
		in, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestCall)
		defer cancel()
		if err := p.catalog.Clean(in, j.spec.User, j.spec.Label); err != nil {
			log.Error().Str("step", "clean").Err(err).Msg("cannot remove the blobs of a failed pull: they stay for now")
		}
	}
	log.Warn().Str("step", "pull").Err(err).Msg("cannot pull an image")
	return err
}

// attempts begins attempts until one isn't ended by the end of its turn.
func (p *puller) attempts(ctx context.Context, j *job) error {
	give, err := p.same.take(ctx, j.spec.User+" "+j.ref.Text)
	if err != nil {
		return err
	}
	defer give()
	t := turn{user: j.spec.User, first: true, own: true, length: p.turn, pause: p.turn}
	// An image that is unpacked waits in another line, and has no place in this one.
	t.endable = func() bool { return !j.shown().Unpacking }
	for {
		again, err := p.turns.take(ctx, t, func(ctx context.Context, back func()) error { return p.attempt(ctx, j, back) })
		if !again {
			return err
		}
	}
}

// attempt makes one attempt. fetched gives back its turn when all is fetched.
func (p *puller) attempt(ctx context.Context, j *job, fetched func()) error {
	if _, _, i, err := p.catalog.Find(ctx, j.spec.Label); err == nil {
		if i.User != j.spec.User {
			return node.Errorf(node.Exist, "cannot pull an image for %s: it is another user's", j.spec.Label)
		}
		// A released one still has a container on it.
		if err := claimOf(j.spec).Check("pull an image for "+j.spec.Label, i.Hash); err != nil {
			return err
		}
	}
	in, n, err := p.catalog.In(ctx, j.spec.User)
	if err != nil {
		return err
	}
	err = (&attempt{puller: p, job: j, in: n, fetched: fetched}).run(in)
	if node.KindOf(err) == node.NotExist {
		// Something was removed meanwhile: it is fetched again.
		err = node.Errorf(node.Transient, "cannot pull %s: %w", j.ref.Text, err)
	}
	return err
}
