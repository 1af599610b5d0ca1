package network_test

import (
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/config/configtest"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/network"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
)

func TestReaders(t *testing.T) {
	configtest.Readers(t, config.Settings(module.Settings(modules.All())), network.Descriptor().Name, network.Reads)
}
