// Written by scripts/generate.mjs: SHA-256 over schema and golden vectors, see README.md.
export const protobufId = 'a79047d1cdea2efa19a46e10be4244151e0e930ac96e6c2bf88655513d4771fe'
export const msgpackId = 'b853484ff31e168eaf0aaee97e05eeb2c43138a6bab01425823ee556279571ef'
