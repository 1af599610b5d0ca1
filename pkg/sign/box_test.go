package sign

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"golang.org/x/crypto/nacl/box"
	"pgregory.net/rapid"
)

type boxVectors struct {
	Seed    string `json:"recipient_ed25519_seed_hex"`
	Public  string `json:"recipient_curve25519_public_hex"`
	Private string `json:"recipient_curve25519_private_hex"`
	Vectors []struct {
		Name       string `json:"name"`
		Plaintext  string `json:"plaintext_hex"`
		Ciphertext string `json:"ciphertext_hex"`
		Ephemeral  string `json:"ephemeral_secret_hex"`
	} `json:"vectors"`
	Refused []string `json:"must_be_refused_not_panic"`
}

func readBoxVectors(t *testing.T) (boxVectors, KeyPair) {
	t.Helper()
	file, err := os.ReadFile("testdata/encryption.json")
	if err != nil {
		t.Fatal(err)
	}
	var v boxVectors
	if err := json.Unmarshal(file, &v); err != nil {
		t.Fatal(err)
	}
	seed, err := hex.DecodeString(v.Seed)
	if err != nil {
		t.Fatal(err)
	}
	k, err := FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Vectors) != 7 || len(v.Refused) != 7 {
		t.Fatalf("there are %d and %d vectors, want 7 and 7", len(v.Vectors), len(v.Refused))
	}
	return v, k
}

func TestBoxesAsRecorded(t *testing.T) {
	v, k := readBoxVectors(t)
	for _, c := range v.Vectors {
		sealed, err := hex.DecodeString(c.Ciphertext)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := k.Open(sealed)
		if err != nil || hex.EncodeToString(plain) != c.Plaintext {
			t.Errorf("%s: opened %x, %v, want %s", c.Name, plain, err, c.Plaintext)
		}
		if c.Ephemeral == "" {
			continue
		}
		ephemeral, err := hex.DecodeString(c.Ephemeral)
		if err != nil {
			t.Fatal(err)
		}
		again, err := sealWith(bytes.NewReader(ephemeral), k.ID(), plain)
		if err != nil || !bytes.Equal(again, sealed) {
			t.Errorf("%s: sealed %x, %v, want %s", c.Name, again, err, c.Ciphertext)
		}
	}
}

func TestBoxesThatAreRefused(t *testing.T) {
	v, k := readBoxVectors(t)
	for _, text := range v.Refused {
		// Two of them aren't hex: their readable part is refused too.
		sealed, _ := hex.DecodeString(text)
		if plain, err := k.Open(sealed); err == nil {
			t.Errorf("%q is opened: %x", text, plain)
		}
	}
	whole, err := hex.DecodeString(v.Vectors[0].Ciphertext)
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if _, err := k.Open(whole[:n]); err == nil {
			t.Errorf("the first %d bytes are opened", n)
		}
	}
}

func TestBoxKeysAsRecorded(t *testing.T) {
	file, err := os.ReadFile("testdata/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]map[string]string
	if err := json.Unmarshal(file, &keys); err != nil {
		t.Fatal(err)
	}
	for name, v := range keys {
		seed, err := hex.DecodeString(v["seed_hex"])
		if err != nil {
			t.Fatal(err)
		}
		k, err := FromSeed(seed)
		if err != nil {
			t.Fatal(err)
		}
		public, private, err := k.curve25519()
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(public[:]); got != v["curve25519_public_hex"] {
			t.Errorf("%s: public key is %s, want %s", name, got, v["curve25519_public_hex"])
		}
		if got := hex.EncodeToString(private[:]); got != v["curve25519_private_hex"] {
			t.Errorf("%s: private key is %s, want %s", name, got, v["curve25519_private_hex"])
		}
	}
}

func TestSealAndOpen(t *testing.T) {
	_, k := readBoxVectors(t)
	stranger, err := Generate()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		sealed, err := Seal(k.ID(), plain)
		if err != nil {
			t.Fatal(err)
		}
		if len(sealed) != len(plain)+BoxOverhead || BoxOverhead != 48 {
			t.Fatalf("a box of %d bytes holds %d", len(sealed), len(plain))
		}
		opened, err := k.Open(sealed)
		if err != nil || !bytes.Equal(opened, plain) {
			t.Fatalf("opened %x, %v", opened, err)
		}
		if _, err := stranger.Open(sealed); err == nil {
			t.Fatal("a stranger opens it")
		}
		bit := rapid.IntRange(0, 8*len(sealed)-1).Draw(t, "bit")
		sealed[bit/8] ^= 1 << (bit % 8)
		// The last bit of a curve25519 key is ignored by definition, but the
		// nonce is made of the bytes as they are.
		if _, err := k.Open(sealed); err == nil {
			t.Fatalf("it opens with bit %d turned", bit)
		}
	})
}

func TestOpenTakesAnyBytes(t *testing.T) {
	_, k := readBoxVectors(t)
	rapid.Check(t, func(t *rapid.T) {
		if plain, err := k.Open(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "box")); err == nil {
			t.Fatalf("opened %x", plain)
		}
	})
}

// Boxes that another library seals to the ed25519 keys open: the box is x/crypto's own.
func TestBoxOfAnotherLibrary(t *testing.T) {
	_, k := readBoxVectors(t)
	public, private, err := k.curve25519()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := Seal(k.ID(), []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if plain, ok := box.OpenAnonymous(nil, sealed, public, private); !ok || string(plain) != "hello" {
		t.Errorf("opened %q, %v", plain, ok)
	}
}

func TestSealToInvalidKey(t *testing.T) {
	for _, id := range []string{"", "abc", "11111111111111111111111111111111"} {
		if _, err := Seal(id, nil); err == nil {
			t.Errorf("a box is sealed to %q", id)
		}
	}
	_, k := readBoxVectors(t)
	if _, err := sealWith(bytes.NewReader(nil), k.ID(), nil); err == nil {
		t.Error("a box is sealed without randomness")
	}
}
