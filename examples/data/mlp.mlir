// Three layers: tanh(x w1 + b1), relu(. w2 + b2), . w3 + b3. Products in full single precision on every device.
module @mlp {
  func.func public @main(
      %x: tensor<64x256xf32>,
      %w1: tensor<256x512xf32>, %b1: tensor<512xf32>,
      %w2: tensor<512x512xf32>, %b2: tensor<512xf32>,
      %w3: tensor<512x128xf32>, %b3: tensor<128xf32>) -> tensor<64x128xf32> {
    %p1 = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]
      : (tensor<64x256xf32>, tensor<256x512xf32>) -> tensor<64x512xf32>
    %c1 = stablehlo.broadcast_in_dim %b1, dims = [1] : (tensor<512xf32>) -> tensor<64x512xf32>
    %s1 = stablehlo.add %p1, %c1 : tensor<64x512xf32>
    %y1 = stablehlo.tanh %s1 : tensor<64x512xf32>

    %p2 = stablehlo.dot_general %y1, %w2, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]
      : (tensor<64x512xf32>, tensor<512x512xf32>) -> tensor<64x512xf32>
    %c2 = stablehlo.broadcast_in_dim %b2, dims = [1] : (tensor<512xf32>) -> tensor<64x512xf32>
    %s2 = stablehlo.add %p2, %c2 : tensor<64x512xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<64x512xf32>
    %y2 = stablehlo.maximum %s2, %zero : tensor<64x512xf32>

    %p3 = stablehlo.dot_general %y2, %w3, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]
      : (tensor<64x512xf32>, tensor<512x128xf32>) -> tensor<64x128xf32>
    %c3 = stablehlo.broadcast_in_dim %b3, dims = [1] : (tensor<128xf32>) -> tensor<64x128xf32>
    %y3 = stablehlo.add %p3, %c3 : tensor<64x128xf32>
    return %y3 : tensor<64x128xf32>
  }
}
