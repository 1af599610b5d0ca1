package container

import (
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
)

// Reads is what the module is opened with, as far as it comes from settings.
func Reads(c config.Config) any {
	return []any{moduleConfig(c, zerolog.Nop()), ownImageFolder(c), installed(c.Containers.ZDBBinary, "zdb")}
}
