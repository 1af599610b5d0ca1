package sign_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/mr-tron/base58"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/sign"
)

func TestKeysAsRecorded(t *testing.T) {
	for name, v := range recordedKeys(t) {
		k := v.pair(t)
		if k.ID() != v.ID {
			t.Errorf("%s: ID is %s, want %s", name, k.ID(), v.ID)
		}
		if got := hex.EncodeToString(k.Public()); got != v.Public {
			t.Errorf("%s: public key is %s, want %s", name, got, v.Public)
		}
		if got := hex.EncodeToString(k.Private()); got != v.Private {
			t.Errorf("%s: private key is %s, want %s", name, got, v.Private)
		}
		if got := hex.EncodeToString(k.Seed()); got != v.Seed {
			t.Errorf("%s: seed is %s, want %s", name, got, v.Seed)
		}
	}
}

type recordedIDs struct {
	Base58 []struct {
		Hex    string `json:"hex"`
		Base58 string `json:"base58"`
	} `json:"base58"`
	Keys []struct {
		ID    string `json:"id"`
		Error string `json:"error"`
		Key   string `json:"key_hex"`
	} `json:"key_from_id"`
}

func TestBase58AsRecorded(t *testing.T) {
	var v recordedIDs
	load(t, "ids.json", &v)
	if len(v.Base58) != 8 {
		t.Fatalf("there are %d cases, want 8", len(v.Base58))
	}
	for _, c := range v.Base58 {
		raw := unhex(t, c.Hex)
		if got := sign.ID(raw); got != c.Base58 {
			t.Errorf("base58 of %q is %q, want %q", c.Hex, got, c.Base58)
		}
		key, err := sign.ParseID(c.Base58)
		if len(raw) != ed25519.PublicKeySize {
			if err == nil {
				t.Errorf("%q of %d bytes is taken for an ID", c.Base58, len(raw))
			}
			continue
		}
		if err != nil || !bytes.Equal(key, raw) {
			t.Errorf("ID %q is %x, %v", c.Base58, key, err)
		}
	}
}

func TestKeyOfIDAsRecorded(t *testing.T) {
	var v recordedIDs
	load(t, "ids.json", &v)
	if len(v.Keys) != 8 {
		t.Fatalf("there are %d cases, want 8", len(v.Keys))
	}
	for _, c := range v.Keys {
		key, err := sign.ParseID(c.ID)
		if (err != nil) != (c.Error != "") {
			t.Errorf("%q: error is %v, recorded %q", c.ID, err, c.Error)
		}
		if hex.EncodeToString(key) != c.Key {
			t.Errorf("%q: key is %x, recorded %s", c.ID, key, c.Key)
		}
	}
}

func TestParseIDErrors(t *testing.T) {
	for _, c := range []struct{ id, want string }{
		{"", "base58"},
		{"0OIl", "base58"},
		{"é", "base58"},
		{"2g", "holds 1 bytes, must hold 32"},
		{strings.Repeat("z", 45), "45 characters, at most 44 are allowed"},
		{strings.Repeat("1", 31), "holds 31 bytes"},
		{strings.Repeat("1", 33), "holds 33 bytes"},
		{"../../etc/passwd", "base58"},
	} {
		if _, err := sign.ParseID(c.id); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "cannot ") {
			t.Errorf("%q: error is %v, want one with %q", c.id, err, c.want)
		}
	}
}

func TestOneIDForAKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key")
		zeros := rapid.IntRange(0, 32).Draw(t, "zeros")
		clear(key[:zeros])
		id := sign.ID(key)
		back, err := sign.ParseID(id)
		if err != nil || !bytes.Equal(back, key) {
			t.Fatalf("%x became %s became %x, %v", key, id, back, err)
		}
		for _, other := range []string{"1" + id, id + "1", id[1:], id + " ", "\n" + id} {
			if back, err := sign.ParseID(other); err == nil && bytes.Equal(back, key) {
				t.Fatalf("%q and %q are one key", id, other)
			}
		}
	})
}

func TestParseIDTakesAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[1-9A-Za-z]{0,50}`)).Draw(t, "text")
		if key, err := sign.ParseID(text); err == nil && sign.ID(key) != text {
			t.Fatalf("%q is an ID, but not the one of its key", text)
		}
	})
}

// weakPoints are the points of small order, in every encoding that an
// implementation is known to accept: RFC 8032's, and with y beyond the prime.
func weakPoints() []string {
	return []string{
		"0100000000000000000000000000000000000000000000000000000000000000",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0000000000000000000000000000000000000000000000000000000000000080",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
		"0100000000000000000000000000000000000000000000000000000000000080",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	}
}

func TestWeakKeysAreRefused(t *testing.T) {
	for _, point := range weakPoints() {
		id := sign.ID(unhex(t, point))
		if _, err := sign.VerifyingKey(id); err == nil {
			t.Errorf("%s is taken for somebody's key", point)
		}
		if err := sign.Verify(id, []byte("m"), make([]byte, 64)); err == nil || !strings.Contains(err.Error(), "cannot use ID") {
			t.Errorf("%s: error is %v", point, err)
		}
		if _, err := sign.Seal(id, []byte("m")); err == nil {
			t.Errorf("a box is sealed to %s", point)
		}
	}
}

// Why weak keys are refused: by the identity point one signature, which anybody
// can write down, holds for all messages, according to crypto/ed25519.
func TestIdentityPointSignsEverything(t *testing.T) {
	identity := unhex(t, weakPoints()[0])
	forged := append(append([]byte{}, identity...), make([]byte, 32)...)
	for _, message := range []string{"", "a reservation", "another one"} {
		if !ed25519.Verify(identity, []byte(message), forged) {
			t.Errorf("%q: the forgery doesn't hold: is the reason for the rule gone?", message)
		}
		if err := sign.Verify(sign.ID(identity), []byte(message), forged); err == nil {
			t.Errorf("%q: the forgery is taken for a signature", message)
		}
	}
}

func TestBytesOffTheCurve(t *testing.T) {
	// y = 2 isn't on the curve.
	id := sign.ID(append([]byte{2}, make([]byte, 31)...))
	if _, err := sign.VerifyingKey(id); err == nil || !strings.Contains(err.Error(), "isn't an ed25519 public key") {
		t.Errorf("error is %v", err)
	}
}

func TestVerify(t *testing.T) {
	k := recordedKeys(t)["user"].pair(t)
	other := recordedKeys(t)["other-user"].pair(t)
	message := []byte("message")
	signature := k.Sign(message)
	if err := sign.Verify(k.ID(), message, signature); err != nil {
		t.Fatal(err)
	}
	if sign.Verify(other.ID(), message, signature) == nil {
		t.Error("somebody else's key verifies it")
	}
	if sign.Verify(k.ID(), []byte("messagf"), signature) == nil {
		t.Error("another message is verified by it")
	}
	for _, n := range []int{0, 63, 65} {
		if err := sign.Verify(k.ID(), message, append([]byte{}, append(signature, 0)[:n]...)); err == nil || !strings.Contains(err.Error(), "must have 64") {
			t.Errorf("a signature of %d bytes: error is %v", n, err)
		}
	}
	for i := range 8 * len(signature) {
		bad := bytes.Clone(signature)
		bad[i/8] ^= 1 << (i % 8)
		if sign.Verify(k.ID(), message, bad) == nil {
			t.Fatalf("the signature holds with bit %d turned", i)
		}
	}
}

// A signature's S plus the group's order would hold too without a check:
// one signature must not become two.
func TestSignatureHasOneForm(t *testing.T) {
	k := recordedKeys(t)["user"].pair(t)
	signature := k.Sign([]byte("message"))
	order := unhex(t, "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")
	carry := 0
	for i, b := range order {
		carry += int(signature[32+i]) + int(b)
		signature[32+i] = byte(carry)
		carry >>= 8
	}
	if sign.Verify(k.ID(), []byte("message"), signature) == nil {
		t.Error("the other form of the signature holds")
	}
}

func TestGenerate(t *testing.T) {
	a, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	b, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	if a.ID() == b.ID() {
		t.Error("two keys are one")
	}
	if _, err := sign.VerifyingKey(a.ID()); err != nil {
		t.Error(err)
	}
	if decoded, err := base58.Decode(a.ID()); err != nil || !bytes.Equal(decoded, a.Public()) {
		t.Errorf("ID is %s", a.ID())
	}
	for _, n := range []int{0, 31, 33, 64} {
		if _, err := sign.FromSeed(make([]byte, n)); err == nil || !strings.Contains(err.Error(), "must have 32") {
			t.Errorf("a seed of %d bytes: error is %v", n, err)
		}
	}
}
