package plane

import (
	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logger writes the library's lines to log. Its info lines are debug lines here: each start of a controller is one.
func logger(log zerolog.Logger) *zap.Logger { return zap.New(&core{log: log}) }

type core struct {
	log    zerolog.Logger
	fields []zapcore.Field
}

// Enabled implements zapcore.Core.
func (c *core) Enabled(l zapcore.Level) bool { return c.log.GetLevel() <= level(l) }

// With implements zapcore.Core.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{log: c.log, fields: append(append([]zapcore.Field{}, c.fields...), fields...)}
}

// Check implements zapcore.Core.
func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	read := zapcore.NewMapObjectEncoder()
	for _, f := range append(append([]zapcore.Field{}, c.fields...), fields...) {
		f.AddTo(read)
	}
	c.log.WithLevel(level(e.Level)).Str("step", "state").Fields(read.Fields).Msg(e.Message)
	return nil
}

// Sync implements zapcore.Core.
func (c *core) Sync() error { return nil }

func level(l zapcore.Level) zerolog.Level {
	switch {
	case l <= zapcore.InfoLevel:
		return zerolog.DebugLevel
	case l == zapcore.WarnLevel:
		return zerolog.WarnLevel
	}
	return zerolog.ErrorLevel
}
