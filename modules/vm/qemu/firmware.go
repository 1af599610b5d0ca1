package qemu

import (
	"encoding/hex"
	"strings"
)

// The probe's guest is 64 KiB of firmware, the last below 4 GiB: the processor starts at resetVector with a jump to the
// beginning. TestFirmware assembles it from probe.S, which says what it does.
const (
	firmwareSize = 64 << 10
	resetVector  = firmwareSize - 16
	firmwareJump = "e90d"
	firmwareCode = `
fa2e660f011690010f20c06683c8010f22c066ea1a00ffff0800b8100000008ed88ec08ed0bc0000080031c0bf000500
00b9c0220000fcf3abc7050010000003200000c7050020000003300000c7050820000003400000c70510200000035000
00c7051820000003600000bf00300000b883000000b900080000890783c7080500002000e2f4b8200000000f22e0b800
1000000f22d8b9800000c00f320d000100000f300f20c00d000000800f22c0eab600ffff1800bb0000e0febfe0800000
b85a01ffffe866000000bf00820000b84701ffffe857000000b89601ffff0f011848b80000000002000000488b10b0ff
e621e6a1c783f0000000ff010000c783e003000003000000c7832003000020000200c7838003000010270000fbf4833c
25000500000a72f5fab02ae6f4f4ebfd66890766c74702180066c74704008ec1e81066894706c3ff042500050000c783
b00000000000000048cfc7042540200000033000004883c40848cf8db40000900000000000000000ffff0000009bcf00
ffff00000093cf00ffff0000009baf001f007001ffff0f020080
`
)

// answer is what the guest writes to its exit device, status the exit status that the device makes of it; see
// hw/misc/debugexit.c of QEMU.
const (
	answer = 0x2a
	status = answer<<1 | 1
)

func firmware() ([]byte, error) {
	code, err := hex.DecodeString(strings.ReplaceAll(firmwareCode, "\n", ""))
	if err != nil {
		return nil, err
	}
	jump, err := hex.DecodeString(firmwareJump)
	rom := make([]byte, firmwareSize)
	copy(rom, code)
	copy(rom[resetVector:], jump)
	return rom, err
}
